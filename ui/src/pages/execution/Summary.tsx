import { memo } from "react";
import { get } from "../../api/client";
import { isInterrupted, isLive, reasonOf, waitsForShare } from "../../api/commands";
import type { Connection } from "../../api/stream";
import type { Head, Timeline } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { StatusBadge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { copyToClipboard } from "../../design/ShellCommand";
import { duration, secondsBetween, shortTime, wholeTime } from "../../design/time";
import { useNow } from "../../design/useNow";
import { Labels } from "../executions/Labels";
import { Actions } from "./Actions";

interface Versions {
  items: { version: number; digest: string }[];
}

/** The version number of the playbook text. */
function useVersion(path: string, digest: string): number | undefined {
  const { data } = useResource<Versions>(digest === "" ? null : `versions ${path}`, (signal) => get("/playbooks/versions", { path }, signal));
  return data?.items.find((item) => item.digest === digest)?.version;
}

function By({ timeline }: { timeline: Timeline }) {
  const { by, parent } = timeline;
  if (parent !== null) return <CalledBy parent={parent} />;
  return by === null ? null : <span>· by {by}</span>;
}

/** The caller: its path if it is readable, and its call. */
function CalledBy({ parent }: { parent: string }) {
  const caller = parent.split("/")[0] ?? "";
  const { data } = useResource<Head>(`head ${caller}`, (signal) => get(`/executions/${caller}/head`, {}, signal));
  const call = parent.slice(caller.length + 1);
  return <span>· called by <Link className="inline-link" to={`/executions/${caller}`} title={parent}>{data?.path ?? "a playbook"}</Link>{call !== "" && <> in <code>{call}</code></>}</span>;
}

const SHOWN_STALLS = 3;

/** Why nothing happens: the whole execution does not advance, or steps wait for workers or slots. */
export function Stalls({ timeline }: { timeline: Timeline }) {
  const runs = timeline.steps.flatMap((line) => line.runs).filter(({ why }) => why?.startsWith("waits for a worker") === true || waitsForShare(why));
  const reasons = timeline.why != null ? [timeline.why] : runs.map((run) => `${run.step} ${reasonOf(run)}`);
  if (reasons.length === 0) return null;
  return (
    <p className="notice waiting lost" role="status">
      {reasons.slice(0, SHOWN_STALLS).join("; ")}{reasons.length > SHOWN_STALLS && ` and ${reasons.length - SHOWN_STALLS} more`}
      {runs.length > 0 && <>. <Link to="/workers">Workers and pools</Link></>}
      {timeline.why?.startsWith("waits for the limit") === true && <>. <Link to="/limits">Limits</Link></>}
    </p>
  );
}

interface SummaryProps {
  timeline: Timeline;
  connection: Connection;
  owned: boolean; // false: no process runs it
  at: number | null; // the cursor; null: it follows the end
  labels: Head["labels"];
}

/** Independent of the cursor: moving the cursor does not render it again. */
export const Summary = memo(function Summary({ timeline, connection, owned, at, labels }: SummaryProps) {
  const { path, digest, status, execution_id: id, started_at: started } = timeline;
  const version = useVersion(path, digest);
  const live = isLive(status);
  const now = useNow(500, live);
  const page = `/playbooks/one?path=${encodeURIComponent(path)}${version === undefined ? "" : `&version=${version}`}`;
  return (
    <header className="summary">
      <div className="summary-text">
        <div className="row wrap">
          <h1><Link to={page}>{path}</Link>{version !== undefined && <span className="faint">@{version}</span>}</h1>
          <StatusBadge status={isInterrupted({ ...timeline, owner_alive: owned }) ? "interrupted" : status} />
          {live && connection === "lost" && <span className="notice waiting lost" role="status">The server does not answer. Trying again.</span>}
        </div>
        {live && <Stalls timeline={timeline} />}
        <div className="row wrap soft numbers">
          <span title={wholeTime(started)}>started {shortTime(started)}</span>
          <span>· {duration(secondsBetween(started, live && owned ? now : timeline.updated_at))}</span>
          <By timeline={timeline} />
          <Button variant="quiet" small className="mono" title="Copy id" onClick={() => void copyToClipboard(id)}>{id}</Button>
          <Labels labels={labels} most={6} />
        </div>
      </div>
      <Actions timeline={timeline} owned={owned} version={version} at={at} />
    </header>
  );
});
