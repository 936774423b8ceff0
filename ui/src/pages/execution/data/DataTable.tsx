import { useState } from "react";
import { Button } from "../../../design/Button";
import { shorten } from "./shapes";

const PAGE = 50;

export function DataTable({ rows, columns }: { rows: Record<string, unknown>[]; columns: string[] }) {
  const [shown, setShown] = useState(PAGE);
  return (
    <div className="table-scroll data-table" tabIndex={0} role="region" aria-label="Data">
      <table className="table">
        <thead>
          <tr>{columns.map((column) => <th key={column} scope="col">{column}</th>)}</tr>
        </thead>
        <tbody>
          {rows.slice(0, shown).map((row, index) => (
            <tr key={index}>
              {columns.map((column) => (
                <td key={column} className="mono">{typeof row[column] === "string" ? row[column] : shorten(row[column], 120)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shown && (
        <Button small variant="quiet" onClick={() => setShown(shown + 10 * PAGE)}>{(rows.length - shown).toLocaleString()} more rows</Button>
      )}
    </div>
  );
}
