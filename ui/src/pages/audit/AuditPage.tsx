import { useState } from "react";
import { get } from "../../api/client";
import type { AuditEntry, AuditPage as Entries } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { Badge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { TextField } from "../../design/Field";
import { SkeletonRows } from "../../design/Skeleton";
import { shortTime, wholeTime } from "../../design/time";
import "./audit.css";

const ACTIONS = ["start", "command", "register", "secret", "token", "saved", "sign-in", "sign-out", "denied"];

const DIGEST = /^[0-9a-f]{64}$/; // of a text: its first characters tell it apart

/** Who did what on this server, the newest entry first. */
export default function AuditPage() {
  const [action, setAction] = useState("");
  const [who, setWho] = useState("");
  const [before, setBefore] = useState<number[]>([]); // of the pages that were left, the last one is shown
  const query = { action, who: who.trim(), before: before.at(-1) };
  const entries = useResource<Entries>(JSON.stringify(query), (signal) => get("/audit", query, signal));
  const filter = (change: () => void) => {
    change();
    setBefore([]);
  };
  const next = entries.data?.next;
  return (
    <div className="page">
      <div className="page-head">
        <h1>Audit</h1>
        <span className="soft">Who did what on this server, the newest first</span>
      </div>
      <div className="row audit-filters">
        <div className="field">
          <label htmlFor="audit-action">Action</label>
          <select
            id="audit-action"
            className="input"
            value={action}
            onChange={(event) => filter(() => setAction(event.target.value))}
          >
            <option value="">all</option>
            {ACTIONS.map((each) => <option key={each}>{each}</option>)}
          </select>
        </div>
        <TextField label="Who" placeholder="person or token" value={who} onChange={(event) => filter(() => setWho(event.target.value))} />
        <Button onClick={entries.reload}>Refresh</Button>
      </div>
      {entries.error !== undefined && <ErrorNotice error={entries.error} onRetry={entries.reload} />}
      {entries.data === undefined && entries.error === undefined && <SkeletonRows />}
      {entries.data?.items.length === 0 && (
        <div className="card">
          <EmptyState title="No entries" command="noetl audit-log --since 4w">
            Starts, commands, changes and denied requests appear here.
          </EmptyState>
        </div>
      )}
      {entries.data !== undefined && entries.data.items.length > 0 && <EntryTable items={entries.data.items} />}
      <div className="row">
        {before.length > 0 && <Button onClick={() => setBefore(before.slice(0, -1))}>Newer</Button>}
        {next !== undefined && next !== null && <Button onClick={() => setBefore([...before, next])}>Older</Button>}
      </div>
    </div>
  );
}

function EntryTable({ items }: { items: AuditEntry[] }) {
  return (
    <div className="card table-scroll" tabIndex={0} role="region" aria-label="Audit trail">
      <table className="table audit">
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Who</th>
            <th scope="col">Action</th>
            <th scope="col">What</th>
            <th scope="col" className="wide">Detail</th>
          </tr>
        </thead>
        <tbody>
          {items.map((each) => (
            <tr key={each.id}>
              <td title={wholeTime(each.at)}>{shortTime(each.at)}</td>
              <td title={each.address === "" ? undefined : `from ${each.address}`}>{each.who === "" ? "without a token" : each.who}</td>
              <td><Badge tone={each.action === "denied" || each.action === "lost" ? "waiting" : "neutral"}>{each.action}</Badge></td>
              <td>{each.what} <Target entry={each} />{each.times > 1 && <span className="soft"> × {each.times}</span>}</td>
              <td className="wide soft" title={each.detail}>{DIGEST.test(each.detail) ? each.detail.slice(0, 12) : each.detail}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Target({ entry }: { entry: AuditEntry }) {
  if (entry.target === "" || entry.action === "sign-in" || entry.action === "sign-out") return null;
  if (entry.action !== "start" && entry.action !== "command") return <span className="mono">{entry.target}</span>;
  return <Link to={`/executions/${entry.target}`} className="mono">{entry.target.slice(0, 13)}</Link>;
}
