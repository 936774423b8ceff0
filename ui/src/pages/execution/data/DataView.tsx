/** Shows data as a table, text or a tree. Data in a result store is fetched on request. */

import { useState } from "react";
import { Button } from "../../../design/Button";
import { copyToClipboard } from "../../../design/ShellCommand";
import { JsonTree } from "./JsonTree";
import { RefView } from "./RefView";
import { DataTable } from "./DataTable";
import { columnsOf, isLoopRef, isRef } from "./shapes";

type Mode = "table" | "text" | "tree";

function modesOf(value: unknown): Mode[] {
  if (columnsOf(value) !== null) return ["table", "tree"];
  return typeof value === "string" ? ["text", "tree"] : ["tree"];
}

export function DataView({ execution, value }: { execution: string; value: unknown }) {
  const modes = modesOf(value);
  const [wanted, setWanted] = useState<Mode | null>(null);
  const mode = wanted !== null && modes.includes(wanted) ? wanted : (modes[0] ?? "tree");
  if (isRef(value) || isLoopRef(value)) return <RefView execution={execution} reference={value} />;
  return (
    <div className="data">
      <div className="data-bar">
        {modes.length > 1 &&
          modes.map((each) => (
            <Button key={each} small variant="quiet" aria-pressed={each === mode} onClick={() => setWanted(each)}>{each}</Button>
          ))}
        <Button small variant="quiet" onClick={() => void copyToClipboard(typeof value === "string" ? value : JSON.stringify(value, null, 2))}>Copy</Button>
      </div>
      {mode === "table" && <DataTable rows={value as Record<string, unknown>[]} columns={columnsOf(value) ?? []} />}
      {mode === "text" && <pre className="data-text" tabIndex={0}>{value as string}</pre>}
      {mode === "tree" && <JsonTree value={value} />}
    </div>
  );
}
