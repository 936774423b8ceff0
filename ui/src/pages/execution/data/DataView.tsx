/** Data in the way that fits it: a table, text or a tree; what lies in the result store is fetched when asked. */

import { useState } from "react";
import { Button } from "../../../design/Button";
import { copy } from "../../../design/Command";
import { JsonTree } from "./JsonTree";
import { RefView } from "./RefView";
import { DataTable } from "./DataTable";
import { columnsOf, isRef } from "./shapes";

type Mode = "table" | "text" | "tree";

function modesOf(value: unknown): Mode[] {
  if (columnsOf(value) !== null) return ["table", "tree"];
  return typeof value === "string" ? ["text", "tree"] : ["tree"];
}

export function DataView({ execution, value }: { execution: string; value: unknown }) {
  const modes = modesOf(value);
  const [wanted, setWanted] = useState<Mode | null>(null);
  const mode = wanted !== null && modes.includes(wanted) ? wanted : (modes[0] ?? "tree");
  if (isRef(value)) return <RefView execution={execution} reference={value} />;
  return (
    <div className="data">
      <div className="data-bar">
        {modes.length > 1 &&
          modes.map((each) => (
            <Button key={each} small look="quiet" aria-pressed={each === mode} onClick={() => setWanted(each)}>{each}</Button>
          ))}
        <Button small look="quiet" onClick={() => void copy(typeof value === "string" ? value : JSON.stringify(value, null, 2))}>Copy</Button>
      </div>
      {mode === "table" && <DataTable rows={value as Record<string, unknown>[]} columns={columnsOf(value) ?? []} />}
      {mode === "text" && <pre className="data-text" tabIndex={0}>{value as string}</pre>}
      {mode === "tree" && <JsonTree value={value} />}
    </div>
  );
}
