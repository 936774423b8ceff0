/** A form for the workload: its fields come from the defaults in the text, their kinds from the values. */

import { parse, parseDocument, stringify } from "yaml";
import { plain } from "../../editor/place";

export type InputKind = "text" | "number" | "flag" | "data";

export interface Input {
  name: string;
  kind: InputKind;
  written: string; // the default, as it stands in the field
}

export type Written = Record<string, string>; // what was typed, by names; what is not there was left alone

export interface Read {
  workload: Record<string, unknown>; // only what differs from its default
  wrong: Record<string, string>; // by names, what is not right
}

export function inputsOf(text: string): Input[] {
  const root = plain(parseDocument(text, { logLevel: "silent", strict: false }));
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
  if (written.trim() === "" || !Number.isFinite(value)) throw new Error("a number, please");
  return value;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
