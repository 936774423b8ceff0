/** The form for the workload: its fields and their kinds follow from the defaults in the text. */

import { parse, parseDocument, stringify } from "yaml";
import { toData } from "../../editor/position";

export type InputKind = "text" | "number" | "flag" | "data";

export interface Input {
  name: string;
  kind: InputKind;
  written: string; // the default, as text in the field
}

export type Written = Record<string, string>; // the changed fields, by name

export interface Read {
  workload: Record<string, unknown>; // only values that differ from their default
  wrong: Record<string, string>; // error messages by name
}

export function parseInputs(text: string): Input[] {
  const root = toData(parseDocument(text, { logLevel: "silent", strict: false }));
  const workload = isRecord(root) ? root.workload : undefined;
  return isRecord(workload) ? Object.entries(workload).map(([name, value]) => inputOf(name, value)) : [];
}

function inputOf(name: string, value: unknown): Input {
  if (typeof value === "boolean") return { name, kind: "flag", written: String(value) };
  if (typeof value === "number" || typeof value === "bigint") return { name, kind: "number", written: String(value) };
  if (typeof value === "string") return { name, kind: "text", written: value };
  return { name, kind: "data", written: value === null ? "" : stringify(value).trimEnd() };
}

export function readInputs(inputs: readonly Input[], written: Written): Read {
  const read: Read = { workload: {}, wrong: {} };
  for (const { name, kind, written: before } of inputs) {
    const now = written[name];
    if (now === undefined || now === before) continue;
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
  if (kind === "flag") return written === "true";
  if (kind === "data") return parse(written, { logLevel: "error" }) as unknown;
  const value = Number(written);
  if (written.trim() === "" || !Number.isFinite(value)) throw new Error("enter a number");
  return value;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
