/** Shows a value as a tree. Only expanded nodes are in the page. */

import { useContext, useState } from "react";
import { RefView } from "./RefView";
import { ExecutionContext } from "./execution";
import { isLoopRef, isObject, isRef, shorten } from "./shapes";

const CHUNK = 100; // children shown initially
const OPEN_LEVELS = 2;
const OPEN_CHILDREN_MAX = 30;

interface TreeProps {
  value: unknown;
  name?: string;
  path?: string; // of this value, as in `marked`
  level?: number;
  marked?: ReadonlySet<string>; // paths that have changed
}

function Leaf({ value }: { value: unknown }) {
  const type = value === null ? "null" : typeof value;
  const long = typeof value === "string" && (value.length > 80 || value.includes("\n"));
  return <span className={`json-${type}${long ? " json-long" : ""}`}>{typeof value === "string" ? (long ? value : JSON.stringify(value)) : String(value)}</span>;
}

function entriesOf(value: unknown): [string, unknown][] | null {
  if (Array.isArray(value)) return value.map((each, index) => [String(index), each as unknown]);
  return isObject(value) ? Object.entries(value) : null;
}

export function JsonTree({ value, name, path = "", level = 0, marked }: TreeProps) {
  const execution = useContext(ExecutionContext);
  const entries = entriesOf(value);
  const count = entries?.length ?? 0;
  const [open, setOpen] = useState(level < OPEN_LEVELS && count <= OPEN_CHILDREN_MAX);
  const [shown, setShown] = useState(CHUNK);
  const look = marked?.has(path) === true ? "json-row changed" : "json-row";
  const label = name === undefined ? null : <span className="json-key">{name}</span>;
  if ((isRef(value) || isLoopRef(value)) && execution !== "") {
    return <div className={look}>{label}<RefView execution={execution} reference={value} /></div>;
  }
  if (entries === null || count === 0) {
    return <div className={look}>{label}{entries === null ? <Leaf value={value} /> : <span className="faint">{Array.isArray(value) ? "[]" : "{}"}</span>}</div>;
  }
  const kind = `${count.toLocaleString()} ${Array.isArray(value) ? "item" : "key"}${count === 1 ? "" : "s"}`;
  return (
    <div className={look}>
      <button type="button" className="json-fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span aria-hidden="true">{open ? "▾" : "▸"}</span> {label}
        <span className="faint">{open ? kind : `${kind}  ${shorten(value)}`}</span>
      </button>
      {open && (
        <div className="json-inner">
          {entries.slice(0, shown).map(([key, each]) => (
            <JsonTree key={key} name={key} value={each} path={path === "" ? key : `${path}.${key}`} level={level + 1} {...(marked ? { marked } : {})} />
          ))}
          {count > shown && (
            <button type="button" className="json-fold" onClick={() => setShown(shown + 10 * CHUNK)}>
              … {(count - shown).toLocaleString()} more
            </button>
          )}
        </div>
      )}
    </div>
  );
}
