/** The newest executions of one playbook side by side: since when a step fails, and since when it is slow. */

import { useEffect, useRef, useState } from "react";
import { get } from "../../../api/client";
import type { HistoryColumn, HistoryRow, PlaybookHistory } from "../../../api/types";
import { useResource } from "../../../api/useResource";
import { Link } from "../../../app/router";
import { EmptyState } from "../../../design/EmptyState";
import { ErrorNotice } from "../../../design/ErrorNotice";
import { SkeletonRows } from "../../../design/Skeleton";
import { duration, shortTime } from "../../../design/time";
import type { PageProps } from "../../../routes";
import { playbookLink } from "../links";
import { Trend } from "./Trend";
import "./history.css";

const SIZES = [20, 40, 100];

interface CellProps {
  label: string;
  status: string;
  share: number; // of the longest in its row, 0 to 1
  to: string;
}

function Cell({ label, status, share, to }: CellProps) {
  return (
    <Link className={`history-cell ${status}`} to={to} aria-label={label} title={label}>
      <i style={{ height: `${String(Math.max(8, Math.round(share * 100)))}%` }} />
    </Link>
  );
}

const longest = (values: readonly number[]): number => Math.max(...values, 1e-6);

function StepRow({ row, columns, onChoose, chosen }: { row: HistoryRow; columns: readonly HistoryColumn[]; onChoose: () => void; chosen: boolean }) {
  const most = longest(columns.map((column) => column.steps?.[row.step]?.duration_s ?? 0));
  const { p50_s: p50, p95_s: p95 } = row.durations;
  return (
    <tr>
      <th scope="row"><button type="button" className="history-step cut" aria-pressed={chosen} onClick={onChoose}>{row.step}</button></th>
      {columns.map((column) => {
        const cell = column.steps?.[row.step];
        const at = shortTime(column.started_at);
        if (cell === undefined) return <td key={column.execution_id}><span className="history-cell none" title={column.steps === null ? "The log is too long to be read here" : `${row.step} did not run, ${at}`} /></td>;
        const label = `${row.step}: ${cell.status}, ${duration(cell.duration_s)}${cell.runs > 1 ? ` in ${String(cell.runs)} runs` : ""}, ${at}`;
        return (
          <td key={column.execution_id}>
            <Cell label={label} status={cell.status} share={cell.duration_s / most} to={`/executions/${column.execution_id}?step=${encodeURIComponent(row.step)}`} />
          </td>
        );
      })}
      <td className="history-number numbers">{p50 == null ? "–" : duration(p50)}</td>
      <td className="history-number numbers">{p95 == null ? "–" : duration(p95)}</td>
    </tr>
  );
}

function Grid({ history, chosen, onChoose }: { history: PlaybookHistory; chosen: string | null; onChoose: (step: string | null) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const columns = history.executions;
  // The newest executions are at the right end.
  useEffect(() => {
    if (box.current !== null) box.current.scrollLeft = box.current.scrollWidth;
  }, [columns.length]);
  const most = longest(columns.map((column) => column.duration_s));
  return (
    <div ref={box} className="card history-scroll" role="region" aria-label="Steps in the newest executions" tabIndex={0}>
      <table className="history-grid">
        <thead>
          <tr>
            <th scope="col">Step</th>
            {columns.map((column) => <th scope="col" key={column.execution_id}><span className="visually-hidden">{shortTime(column.started_at)}</span></th>)}
            <th scope="col" className="history-number">p50</th>
            <th scope="col" className="history-number">p95</th>
          </tr>
        </thead>
        <tbody>
          <tr className="history-whole">
            <th scope="row"><button type="button" className="history-step cut" aria-pressed={chosen === null} onClick={() => onChoose(null)}>Whole execution</button></th>
            {columns.map((column) => (
              <td key={column.execution_id}>
                <Cell
                  label={`Execution: ${column.status}, ${duration(column.duration_s)}, ${shortTime(column.started_at)}${column.error == null ? "" : `, ${column.error}`}`}
                  status={column.status}
                  share={column.duration_s / most}
                  to={`/executions/${column.execution_id}`}
                />
              </td>
            ))}
            <td className="history-number numbers">{history.durations.p50_s == null ? "–" : duration(history.durations.p50_s)}</td>
            <td className="history-number numbers">{history.durations.p95_s == null ? "–" : duration(history.durations.p95_s)}</td>
          </tr>
          {history.steps.map((row) => (
            <StepRow key={row.step} row={row} columns={columns} chosen={chosen === row.step} onChoose={() => onChoose(row.step)} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Since which execution the newest ones fail without a success between them; null: the newest one has not failed. */
export function failingSince(columns: readonly HistoryColumn[]): HistoryColumn | null {
  let since: HistoryColumn | null = null;
  for (const column of [...columns].reverse()) {
    if (column.status === "error") since = column;
    else if (column.status === "ok") break;
  }
  return since;
}

export default function HistoryPage({ location }: PageProps) {
  const path = location.query.get("path") ?? "";
  const [size, setSize] = useState(40);
  const [step, setStep] = useState<string | null>(null);
  const history = useResource<PlaybookHistory>(`${path} ${String(size)}`, (signal) => get("/playbooks/history", { path, limit: size }, signal));
  const data = history.data;
  const since = data === undefined ? null : failingSince(data.executions);
  const unread = data?.executions.filter((column) => column.steps === null).length ?? 0;
  return (
    <div className="page history">
      <div className="page-head">
        <div className="grow">
          <nav className="crumbs faint" aria-label="Breadcrumb"><Link to="/playbooks">Playbooks</Link> / <Link to={playbookLink(path)}>{path}</Link></nav>
          <h1>History</h1>
        </div>
        <select className="input small-input" aria-label="Number of executions" value={size} onChange={(event) => setSize(Number(event.target.value))}>
          {SIZES.map((each) => <option key={each} value={each}>{each} executions</option>)}
        </select>
        <Link className="button" to={`/executions?path=${encodeURIComponent(path)}`}>All executions</Link>
      </div>
      {history.error !== undefined && <ErrorNotice error={history.error} onRetry={history.reload} />}
      {data === undefined && history.error === undefined && <SkeletonRows rows={10} />}
      {data?.executions.length === 0 && <div className="card"><EmptyState title="No executions yet"><code>{path}</code> has not run.</EmptyState></div>}
      {data !== undefined && data.executions.length > 0 && (
        <div className="stack">
          {since !== null && (
            <p className="notice error" role="status">
              It fails since <Link to={`/executions/${since.execution_id}`}>{shortTime(since.started_at)}</Link>.
            </p>
          )}
          {unread > 0 && <p className="soft">The steps of {unread} executions are not shown: their logs are too long to be read here. Open one to see them.</p>}
          <Grid history={data} chosen={step} onChoose={setStep} />
          <Trend history={data} step={step} />
        </div>
      )}
    </div>
  );
}
