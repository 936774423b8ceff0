/** Looks up a key path in the JSON Schema of playbooks: what is allowed there, and its documentation. */

import { type KeyPath, valueAt } from "./position";

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  type?: string | string[];
  description?: string;
  markdownDescription?: string;
  deprecationMessage?: string;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema | boolean;
  required?: string[];
  enum?: unknown[];
  markdownEnumDescriptions?: string[];
  const?: unknown;
  default?: unknown;
  examples?: unknown[];
  anyOf?: Schema[];
  allOf?: Schema[];
  if?: Schema;
  then?: Schema;
  else?: Schema;
  defaultSnippets?: { label: string; body: unknown }[];
}

export interface Choice {
  name: string;
  doc: string;
  required: boolean;
  nesting: "mapping" | "list" | null; // the type of its value, if only one is possible
}

const DEPTH_MAX = 32;

export class Language {
  constructor(private readonly root: Schema) {}

  /** All schemas for the value at the key path; `data` selects between kinds. */
  at(keyPath: KeyPath, data: unknown): Schema[] {
    let schemas = this.expand(this.root, data, 0);
    for (const [index, key] of keyPath.entries()) {
      const value = valueAt(data, keyPath.slice(0, index + 1));
      schemas = schemas.flatMap((schema) => childSchemas(schema, key)).flatMap((schema) => this.expand(schema, value, 0));
    }
    return schemas;
  }

  keys(keyPath: KeyPath, data: unknown): Choice[] {
    const found = new Map<string, Choice>();
    for (const schema of this.at(keyPath, data)) {
      for (const [name, property] of Object.entries(schema.properties ?? {})) {
        if (property.deprecationMessage !== undefined || found.get(name)?.doc) continue;
        const required = schema.required?.includes(name) ?? false;
        found.set(name, { name, doc: docOf(property), required, nesting: this.nesting(property) });
      }
    }
    return [...found.values()];
  }

  values(keyPath: KeyPath, data: unknown): { name: string; doc: string }[] {
    const found = new Map<string, string>();
    for (const schema of this.at(keyPath, data)) {
      for (const [index, value] of (schema.enum ?? []).entries()) {
        if (value !== null) found.set(asYaml(value), schema.markdownEnumDescriptions?.[index] ?? "");
      }
      if (schema.const !== undefined) found.set(asYaml(schema.const), docOf(schema));
      if (typesOf(schema).includes("boolean")) for (const each of ["true", "false"]) found.set(each, "");
      if (schema.default !== undefined && schema.default !== null) found.set(asYaml(schema.default), "the default");
    }
    return Array.from(found, ([name, doc]) => ({ name, doc }));
  }

  snippets(keyPath: KeyPath, data: unknown): { label: string; body: unknown }[] {
    return this.at(keyPath, data).flatMap((schema) => schema.defaultSnippets ?? []);
  }

  /** The documentation of the value at the key path: that of the key first. */
  doc(keyPath: KeyPath, data: unknown): string {
    const last = keyPath.at(-1);
    const around = this.at(keyPath.slice(0, -1), data);
    const direct = last === undefined ? [] : around.flatMap((schema) => childSchemas(schema, last));
    return [...direct, ...this.at(keyPath, data)].map(docOf).find((text) => text !== "") ?? "";
  }

  /** The documentation of the value itself, such as a kind of tool or a mode. */
  docOfValue(keyPath: KeyPath, data: unknown): string {
    const value = valueAt(data, keyPath);
    return this.values(keyPath, data).find((each) => each.name === value)?.doc ?? "";
  }

  private nesting(property: Schema): Choice["nesting"] {
    const types = new Set(this.expand(property, undefined, 0).flatMap(typesOf).filter((each) => each !== "null"));
    if (types.size !== 1) return null;
    return types.has("object") ? "mapping" : types.has("array") ? "list" : null;
  }

  private expand(schema: Schema, value: unknown, depth: number): Schema[] {
    if (depth > DEPTH_MAX) return [];
    const name = schema.$ref?.replace("#/$defs/", "");
    const named = name === undefined ? undefined : this.root.$defs?.[name];
    const parts = [...(named ? [named] : []), ...(schema.anyOf ?? []), ...(schema.allOf ?? [])];
    if (schema.if !== undefined) {
      const branch = matchesCondition(schema.if, value) ? schema.then : schema.else;
      if (branch !== undefined) parts.push(branch);
    }
    return [schema, ...parts.flatMap((part) => this.expand(part, value, depth + 1))];
  }
}

function childSchemas(schema: Schema, key: string | number): Schema[] {
  if (typeof key === "number") return typeof schema.items === "object" ? [schema.items] : [];
  const property = schema.properties?.[key];
  if (property !== undefined) return typeof property === "object" ? [property] : [];
  return typeof schema.additionalProperties === "object" ? [schema.additionalProperties] : [];
}

/** The part of JSON Schema that our conditions use: required keys and constant values. */
function matchesCondition(condition: Schema, value: unknown): boolean {
  const record = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  if (condition.required?.some((name) => !(name in record))) return false;
  return Object.entries(condition.properties ?? {}).every(
    ([name, wanted]) => wanted.const === undefined || record[name] === wanted.const,
  );
}

/** A value as YAML text. */
function asYaml(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function typesOf(schema: Schema): string[] {
  return schema.type === undefined ? [] : [schema.type].flat();
}

function docOf(schema: Schema): string {
  return schema.markdownDescription ?? schema.description ?? "";
}
