/** Where in a playbook the cursor stands: the keys that lead there, and what is written around it.
 *
 * The text is seldom whole while someone types. So a mark is put where the cursor is, which makes it whole
 * there, and the parser says where the mark has come to lie.
 */

import { type Document, type Node, isMap, isNode, isPair, isScalar, isSeq, parseDocument, visit } from "yaml";

export type Trail = (string | number)[];

export interface Place {
  trail: Trail; // to the mapping or list that the cursor is in, or to the value that it is at
  isKey: boolean;
  typed: string; // what stands before the cursor of the word
  from: number; // where that word begins
  root: unknown; // the whole text, as data
}

export interface Pointed {
  trail: Trail;
  isKey: boolean;
  from: number;
  to: number;
  root: unknown;
}

const MARK = "cursor_is_here";

export function placeAt(text: string, at: number): Place | null {
  const start = text.lastIndexOf("\n", at - 1) + 1;
  const before = text.slice(start, at);
  const typing = wordBefore(before);
  if (typing === null) return null;
  const from = at - typing.typed.length;
  const rest = /^[\w.-]*/.exec(text.slice(at))?.[0].length ?? 0;
  const behind = text.slice(at + rest);
  const mark = typing.isKey && !/^\s*:/.test(behind) ? `${MARK}: 0` : MARK;
  const document = parseDocument(text.slice(0, from) + mark + behind, { logLevel: "silent", strict: false });
  const trail = trailOfMark(document);
  if (trail === null) return null;
  return { ...typing, ...trail, from, root: plain(document) };
}

function wordBefore(before: string): { typed: string; isKey: boolean } | null {
  if (/(^|\s)#/.test(before)) return null;
  const key = /^\s*(?:- +)*([\w.-]*)$/.exec(before) ?? /[{,]\s*([\w.-]*)$/.exec(before);
  if (key !== null && !isInList(before)) return { typed: key[1] ?? "", isKey: true };
  const value = /(?::\s+|[[,]\s*)["']?([\w./-]*)$/.exec(before);
  return value === null ? null : { typed: value[1] ?? "", isKey: false };
}

/** Is the innermost bracket that is open on this line a square one? */
function isInList(before: string): boolean {
  const open: string[] = [];
  for (const char of before) {
    if (char === "{" || char === "[") open.push(char);
    else if (char === "}" || char === "]") open.pop();
  }
  return open.at(-1) === "[";
}

function trailOfMark(document: Document): { trail: Trail; isKey: boolean } | null {
  const found: { trail: Trail; isKey: boolean }[] = [];
  visit(document, {
    Scalar(key, node, ancestors) {
      if (node.value !== MARK) return undefined;
      found.push({ trail: trailOf([...ancestors, node], key === "key"), isKey: key === "key" });
      return visit.BREAK;
    },
  });
  return found[0] ?? null;
}

/** `ancestors` ends with the node itself; a key does not lead to itself. */
function trailOf(ancestors: readonly unknown[], isKey: boolean): Trail {
  const trail: Trail = [];
  for (const [place, each] of ancestors.entries()) {
    const next = ancestors[place + 1];
    if (isSeq(each)) trail.push(each.items.indexOf(next));
    else if (isPair(each) && isScalar(each.key) && !(isKey && place === ancestors.length - 2)) {
      trail.push(String(each.key.value));
    }
  }
  return trail;
}

/** The keys that lead to whatever stands at an offset, for whoever points at it. */
export function trailAt(text: string, at: number): Pointed | null {
  const document = parseDocument(text, { logLevel: "silent", strict: false });
  const found: Pointed[] = [];
  visit(document, {
    Scalar(key, node, ancestors) {
      const [from, to] = node.range ?? [0, 0];
      if (at < from || at > to) return undefined;
      const trail = trailOf([...ancestors, node], false);
      found.push({ trail, isKey: key === "key", from, to, root: plain(document) });
      return visit.BREAK;
    },
  });
  return found[0] ?? null;
}

export function valueAt(root: unknown, trail: Trail): unknown {
  return trail.reduce<unknown>((value, key) => {
    if (typeof value !== "object" || value === null) return undefined;
    return (value as Record<string | number, unknown>)[key];
  }, root);
}

/** As data, as far as it can be read. */
export function plain(document: Document): unknown {
  return isNode(document.contents) ? dataOf(document.contents, 0) : null;
}

const DEPTH_MAX = 64;

function dataOf(node: Node, depth: number): unknown {
  if (depth > DEPTH_MAX) return null;
  const of = (each: unknown): unknown => (isNode(each) ? dataOf(each, depth + 1) : null);
  if (isMap(node)) {
    return Object.fromEntries(
      node.items.filter((each) => isScalar(each.key)).map((each) => [String((each.key as { value: unknown }).value), of(each.value)]),
    );
  }
  if (isSeq(node)) return node.items.map(of);
  return isScalar(node) ? node.value : null;
}
