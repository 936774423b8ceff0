/** A large result in pages from the server: a search, the types of the columns, and files. */

import { useDeferredValue, useState } from "react";
import { get } from "../../../api/client";
import { download } from "../../../api/download";
import type { RowsPage } from "../../../api/types";
import { useResource } from "../../../api/useResource";
import { Button } from "../../../design/Button";
import { ErrorNotice } from "../../../design/ErrorNotice";
import { SkeletonRows } from "../../../design/Skeleton";
import { JsonTree } from "./JsonTree";
import { shorten } from "./shapes";

const PAGE = 50;

export interface RowsSource {
  execution: string;
  digest?: string; // of a stored result
  run?: string; // a loop: the results of its iterations
}

interface RowProps {
  page: RowsPage;
  index: number;
}

function Row({ page, index }: RowProps) {
  const [open, setOpen] = useState(false);
  const cells = page.rows[index] ?? [];
  const place = page.places[index] ?? 0;
  return (
    <>
      <tr>
        <td className="rows-place">
          <button type="button" className="json-fold numbers" aria-expanded={open} aria-label={`Row ${place}`} onClick={() => setOpen(!open)}>
            <span aria-hidden="true">{open ? "▾" : "▸"}</span> {place.toLocaleString()}
          </button>
        </td>
        {cells.map((cell, column) => (
          <td key={column} className="mono">{typeof cell === "string" ? shorten(cell, 120, false) : shorten(cell, 120)}</td>
        ))}
      </tr>
      {open && (
        <tr>
          <td colSpan={cells.length + 1}>
            <JsonTree value={page.shape === "list" || page.shape === "value" ? cells[0] : Object.fromEntries(page.columns.map(({ name }, column) => [name, cells[column]]))} />
          </td>
        </tr>
      )}
    </>
  );
}

export function RowsView({ execution, digest, run }: RowsSource) {
  const [offset, setOffset] = useState(0);
  const [text, setText] = useState("");
  const wanted = useDeferredValue(text);
  const source = { digest, run };
  const key = JSON.stringify([execution, source, wanted, offset]);
  const { data: page, error, reload, loading } = useResource<RowsPage>(key, (signal) =>
    get(`/executions/${execution}/rows`, { ...source, offset, limit: PAGE, text: wanted }, signal));
  const [last, setLast] = useState<RowsPage>();
  if (page !== undefined && page !== last) setLast(page); // The old page stays until the next one is there.
  const shown = page ?? last;
  const file = (format: string) => void download(`/executions/${execution}/rows/file`, { ...source, format }, `${run ?? digest ?? "result"}.${format}`);
  const search = (value: string) => {
    setText(value);
    setOffset(0);
  };
  return (
    <div className={`rows${loading ? " stale" : ""}`}>
      <div className="rows-bar">
        <input className="input" type="search" aria-label="Search the rows" placeholder="Search" value={text} onChange={(event) => search(event.target.value)} />
        <span className="soft numbers grow" role="status">{shown !== undefined && summaryOf(shown, offset)}</span>
        <Button small variant="quiet" aria-label="Previous rows" disabled={offset === 0} onClick={() => setOffset(Math.max(0, offset - PAGE))}>‹</Button>
        <Button small variant="quiet" aria-label="Next rows" disabled={shown === undefined || offset + PAGE >= shown.found} onClick={() => setOffset(offset + PAGE)}>›</Button>
        <Button small variant="quiet" onClick={() => file("json")}>JSON</Button>
        <Button small variant="quiet" onClick={() => file("csv")}>CSV</Button>
      </div>
      {error !== undefined && <ErrorNotice error={error} onRetry={reload} />}
      {shown === undefined && error === undefined && <SkeletonRows rows={3} />}
      {shown !== undefined && (
        <div className="table-scroll data-table" tabIndex={0} role="region" aria-label="Rows">
          <table className="table">
            <thead>
              <tr>
                <th scope="col"><span className="visually-hidden">Row</span></th>
                {shown.columns.map(({ name, type, nullable }) => (
                  <th key={name} scope="col">{name} <span className="column-type">{type}{nullable === true && "?"}</span></th>
                ))}
              </tr>
            </thead>
            <tbody>{shown.rows.map((_, index) => <Row key={shown.places[index]} page={shown} index={index} />)}</tbody>
          </table>
        </div>
      )}
    </div>
  );
}

function summaryOf(page: RowsPage, offset: number): string {
  const { rows, found, total } = page;
  if (found === 0) return total === 0 ? "no rows" : `none of ${total.toLocaleString()} rows`;
  const range = `${(offset + 1).toLocaleString()}–${(offset + rows.length).toLocaleString()} of ${found.toLocaleString()}`;
  return found === total ? range : `${range} found in ${total.toLocaleString()}`;
}
