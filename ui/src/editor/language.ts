/** The JSON Schema of playbooks, asked by a trail of keys: what may stand there, and what it means. */

import { type Trail, valueAt } from "./place";

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
  nests: "mapping" | "list" | null; // what its value is when it can be nothing else
}

const DEPTH_MAX = 32;

export class Language {
  constructor(private readonly root: Schema) {}

  /** All that describes the value at the trail; `data` decides between kinds. */
  at(trail: Trail, data: unknown): Schema[] {
    let shapes = this.unfolded(this.root, data, 0);
    for (const [place, key] of trail.entries()) {
      const value = valueAt(data, trail.slice(0, place + 1));
      shapes = shapes.flatMap((shape) => below(shape, key)).flatMap((shape) => this.unfolded(shape, value, 0));
    }
    return shapes;
  }

  keys(trail: Trail, data: unknown): Choice[] {
    const found = new Map<string, Choice>();
    for (const shape of this.at(trail, data)) {
      for (const [name, property] of Object.entries(shape.properties ?? {})) {
        if (property.deprecationMessage !== undefined || found.get(name)?.doc) continue;
        const required = shape.required?.includes(name) ?? false;
        found.set(name, { name, doc: docOf(property), required, nests: this.nests(property) });
      }
    }
    return [...found.values()];
  }

  values(trail: Trail, data: unknown): { name: string; doc: string }[] {
    const found = new Map<string, string>();
    for (const shape of this.at(trail, data)) {
      for (const [place, value] of (shape.enum ?? []).entries()) {
        if (value !== null) found.set(written(value), shape.markdownEnumDescriptions?.[place] ?? "");
      }
      if (shape.const !== undefined) found.set(written(shape.const), docOf(shape));
      if (typesOf(shape).includes("boolean")) for (const each of ["true", "false"]) found.set(each, "");
      if (shape.default !== undefined && shape.default !== null) found.set(written(shape.default), "the default");
    }
    return Array.from(found, ([name, doc]) => ({ name, doc }));
  }

  snippets(trail: Trail, data: unknown): { label: string; body: unknown }[] {
    return this.at(trail, data).flatMap((shape) => shape.defaultSnippets ?? []);
  }

  /** What is said of the value at the trail, by the key that leads there first. */
  doc(trail: Trail, data: unknown): string {
    const last = trail.at(-1);
    const around = this.at(trail.slice(0, -1), data);
    const direct = last === undefined ? [] : around.flatMap((shape) => below(shape, last));
    return [...direct, ...this.at(trail, data)].map(docOf).find((words) => words !== "") ?? "";
  }

  /** What is said of the very value that stands at the trail: a kind of tool, a mode. */
  docOfValue(trail: Trail, data: unknown): string {
    const value = valueAt(data, trail);
    return this.values(trail, data).find((each) => each.name === value)?.doc ?? "";
  }

  private nests(property: Schema): Choice["nests"] {
    const types = new Set(this.unfolded(property, undefined, 0).flatMap(typesOf).filter((each) => each !== "null"));
    if (types.size !== 1) return null;
    return types.has("object") ? "mapping" : types.has("array") ? "list" : null;
  }

  private unfolded(shape: Schema, value: unknown, depth: number): Schema[] {
    if (depth > DEPTH_MAX) return [];
    const name = shape.$ref?.replace("#/$defs/", "");
    const named = name === undefined ? undefined : this.root.$defs?.[name];
    const parts = [...(named ? [named] : []), ...(shape.anyOf ?? []), ...(shape.allOf ?? [])];
    if (shape.if !== undefined) {
      const branch = holds(shape.if, value) ? shape.then : shape.else;
      if (branch !== undefined) parts.push(branch);
    }
    return [shape, ...parts.flatMap((part) => this.unfolded(part, value, depth + 1))];
  }
}

function below(shape: Schema, key: string | number): Schema[] {
  if (typeof key === "number") return typeof shape.items === "object" ? [shape.items] : [];
  const property = shape.properties?.[key];
  if (property !== undefined) return typeof property === "object" ? [property] : [];
  return typeof shape.additionalProperties === "object" ? [shape.additionalProperties] : [];
}

/** As much of JSON Schema as our conditions use: keys that must be there, and what they must be. */
function holds(condition: Schema, value: unknown): boolean {
  const record = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  if (condition.required?.some((name) => !(name in record))) return false;
  return Object.entries(condition.properties ?? {}).every(
    ([name, wanted]) => wanted.const === undefined || record[name] === wanted.const,
  );
}

/** A value as it stands in YAML. */
function written(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function typesOf(shape: Schema): string[] {
  return shape.type === undefined ? [] : [shape.type].flat();
}

function docOf(shape: Schema): string {
  return shape.markdownDescription ?? shape.description ?? "";
}
