/** The form for the workload: its fields and their kinds follow from `input`, or else from the defaults in the text. */

import { parse, parseDocument, stringify } from "yaml";
import { toData } from "../../editor/position";

export type InputKind = "text" | "number" | "flag" | "data" | "choice" | "date" | "secret";

export interface Input {
  name: string;
  kind: InputKind;
  written: string; // the default, as text in the field
  hint?: string; // its type and description, if it is declared
  required?: boolean;
  choices?: string[];
}

export type Written = Record<string, string>; // the changed fields, by name

export interface Read {
  workload: Record<string, unknown>; // only values that differ from their default
  secrets: Record<string, string>; // the values of secret inputs
  wrong: Record<string, string>; // error messages by name
}

export function parseInputs(text: string): Input[] {
  const root = toData(parseDocument(text, { logLevel: "silent", strict: false }));
  const workload = isRecord(root) ? root.workload : undefined;
  const declared = isRecord(root) ? root.input : undefined;
  if (isRecord(declared)) {
    return declaredInputs(declared, isRecord(workload) ? workload : {});
  }
  return isRecord(workload) ? Object.entries(workload).map(([name, value]) => inputOf(name, value)) : [];
}

/** The fields for declarations as under `input`: of a playbook, or of a form that a task shows. */
export function declaredInputs(declared: Record<string, unknown>, defaults: Record<string, unknown> = {}): Input[] {
  return Object.entries(declared).map(([name, each]) => declaredInput(name, isRecord(each) ? each : {}, defaults[name]));
}

const KINDS: Record<string, InputKind> = {
  boolean: "flag", integer: "number", number: "number", date: "date", list: "data", map: "data",
};

/** The server checks the values; the form only offers the right fields. */
function declaredInput(name: string, declared: Record<string, unknown>, fallback: unknown): Input {
  const value = fallback ?? declared.default ?? null;
  const hasDefault = fallback !== undefined || "default" in declared;
  const type = typeof declared.type === "string" ? declared.type : "string";
  const desc = typeof declared.desc === "string" ? declared.desc : "";
  const choices = Array.isArray(declared.enum) ? declared.enum.map(String) : type === "boolean" && value === null ? ["true", "false"] : undefined;
  return {
    name,
    kind: declared.secret === true ? "secret" : choices === undefined ? (KINDS[type] ?? "text") : "choice",
    written: inputOf(name, value).written,
    hint: [declared.secret === true ? "secret" : type, ...(desc === "" ? [] : [desc])].join(": "),
    required: !hasDefault && declared.required !== false,
    ...(choices === undefined ? {} : { choices }),
  };
}

function inputOf(name: string, value: unknown): Input {
  if (typeof value === "boolean") return { name, kind: "flag", written: String(value) };
  if (typeof value === "number" || typeof value === "bigint") return { name, kind: "number", written: String(value) };
  if (typeof value === "string") return { name, kind: "text", written: value };
  return { name, kind: "data", written: value === null ? "" : stringify(value).trimEnd() };
}

export function readInputs(inputs: readonly Input[], written: Written): Read {
  const read: Read = { workload: {}, secrets: {}, wrong: {} };
  for (const { name, kind, written: before, required } of inputs) {
    const now = written[name];
    if (now === undefined || now === before) {
      if (required === true) read.wrong[name] = "required";
      continue;
    }
    if (kind === "secret") {
      read.secrets[name] = now;
      continue;
    }
    try {
      read.workload[name] = valueOf(kind, now);
    } catch (error) {
      read.wrong[name] = error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error);
    }
  }
  return read;
}

function valueOf(kind: InputKind, written: string): unknown {
  if (kind === "text") return written;
  if (kind === "choice" || kind === "date") {
    if (written === "") throw new Error(kind === "date" ? "enter a date" : "choose a value");
    return written; // the server converts it to the declared type
  }
  if (kind === "flag") return written === "true";
  if (kind === "data") return parse(written, { logLevel: "error" }) as unknown;
  const value = Number(written);
  if (written.trim() === "" || !Number.isFinite(value)) throw new Error("enter a number");
  return value;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
