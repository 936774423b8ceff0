/** The position of the cursor in a playbook: the key path, and the text around it.
 *
 * While someone types, the text is rarely valid YAML. A mark at the cursor makes it valid there, and the parser
 * then tells the key path of the mark.
 */

import { type Document, type Node, isMap, isNode, isPair, isScalar, isSeq, parseDocument, visit } from "yaml";

export type KeyPath = (string | number)[];

export interface CursorPosition {
  keyPath: KeyPath; // of the mapping or list around the cursor, or of the value at the cursor
  isKey: boolean;
  typed: string; // the part of the word before the cursor
  from: number; // where the word starts
  root: unknown; // the data of the whole text
}

export interface HoverTarget {
  keyPath: KeyPath;
  isKey: boolean;
  from: number;
  to: number;
  root: unknown;
}

const MARK = "cursor_is_here";

export function positionAt(text: string, at: number): CursorPosition | null {
  const start = text.lastIndexOf("\n", at - 1) + 1;
  const before = text.slice(start, at);
  const typing = wordBefore(before);
  if (typing === null) return null;
  const from = at - typing.typed.length;
  const rest = /^[\w.-]*/.exec(text.slice(at))?.[0].length ?? 0;
  const behind = text.slice(at + rest);
  const mark = typing.isKey && !/^\s*:/.test(behind) ? `${MARK}: 0` : MARK;
  const document = parseDocument(text.slice(0, from) + mark + behind, { logLevel: "silent", strict: false });
  const keyPath = keyPathOfMark(document);
  if (keyPath === null) return null;
  return { ...typing, ...keyPath, from, root: toData(document) };
}

function wordBefore(before: string): { typed: string; isKey: boolean } | null {
  if (/(^|\s)#/.test(before)) return null;
  const key = /^\s*(?:- +)*([\w.-]*)$/.exec(before) ?? /[{,]\s*([\w.-]*)$/.exec(before);
  if (key !== null && !isInList(before)) return { typed: key[1] ?? "", isKey: true };
  const value = /(?::\s+|[[,]\s*)["']?([\w./-]*)$/.exec(before);
  return value === null ? null : { typed: value[1] ?? "", isKey: false };
}

/** Whether the innermost open bracket on this line is a square bracket. */
function isInList(before: string): boolean {
  const open: string[] = [];
  for (const char of before) {
    if (char === "{" || char === "[") open.push(char);
    else if (char === "}" || char === "]") open.pop();
  }
  return open.at(-1) === "[";
}

function keyPathOfMark(document: Document): { keyPath: KeyPath; isKey: boolean } | null {
  const found: { keyPath: KeyPath; isKey: boolean }[] = [];
  visit(document, {
    Scalar(key, node, ancestors) {
      if (node.value !== MARK) return undefined;
      found.push({ keyPath: keyPathOf([...ancestors, node], key === "key"), isKey: key === "key" });
      return visit.BREAK;
    },
  });
  return found[0] ?? null;
}

/** `ancestors` ends with the node itself; the path of a key does not contain the key. */
function keyPathOf(ancestors: readonly unknown[], isKey: boolean): KeyPath {
  const keyPath: KeyPath = [];
  for (const [index, each] of ancestors.entries()) {
    const next = ancestors[index + 1];
    if (isSeq(each)) keyPath.push(each.items.indexOf(next));
    else if (isPair(each) && isScalar(each.key) && !(isKey && index === ancestors.length - 2)) {
      keyPath.push(String(each.key.value));
    }
  }
  return keyPath;
}

/** The key path of the key or value at an offset. */
export function hoverTargetAt(text: string, at: number): HoverTarget | null {
  const document = parseDocument(text, { logLevel: "silent", strict: false });
  const found: HoverTarget[] = [];
  visit(document, {
    Scalar(key, node, ancestors) {
      const [from, to] = node.range ?? [0, 0];
      if (at < from || at > to) return undefined;
      const keyPath = keyPathOf([...ancestors, node], false);
      found.push({ keyPath, isKey: key === "key", from, to, root: toData(document) });
      return visit.BREAK;
    },
  });
  return found[0] ?? null;
}

export function valueAt(root: unknown, keyPath: KeyPath): unknown {
  return keyPath.reduce<unknown>((value, key) => {
    if (typeof value !== "object" || value === null) return undefined;
    return (value as Record<string | number, unknown>)[key];
  }, root);
}

/** The data of a document, as far as it can be parsed. */
export function toData(document: Document): unknown {
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
