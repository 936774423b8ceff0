import { Fragment } from "react";
import { get } from "../../api/client";
import type { PoolStatus, RunningFrame, WorkerStatus } from "../../api/types";
import { useInterval } from "../../api/useInterval";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { Badge } from "../../design/Badge";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { ShellCommand } from "../../design/ShellCommand";
import { SkeletonRows } from "../../design/Skeleton";
import { duration, secondsBetween, shortTime, wholeTime } from "../../design/time";
import { useNow } from "../../design/useNow";
import "./workers.css";

const REFRESH_MS = 3000;
const EXECUTIONS_MAX = 20; // that are listed for one worker
const FRAMES_MAX = 3; // of one of them, so that a loop does not hide the others

/** The address of NATS is that of the servers: people replace it, or leave it out where NOETL_NATS is set. */
const workerCommand = (pool: string): string => `noetl worker --nats nats://host:4222${pool === "default" ? "" : ` --pool ${pool}`}`;

export default function WorkersPage() {
  const status = useResource<WorkerStatus>("/workers", (signal) => get("/workers", {}, signal));
  useInterval(REFRESH_MS, status.reload);
  const { data } = status;
  return (
    <div className="page">
      <div className="page-head">
        <h1>Workers</h1>
        <span className="soft">Pools, what waits for them, and what each worker runs now</span>
      </div>
      {status.error !== undefined && <ErrorNotice error={status.error} onRetry={status.reload} />}
      {data === undefined && status.error === undefined && <SkeletonRows />}
      {data !== undefined && (
        <div className="stack">
          {data.workers.length === 0 && <NoWorkers />}
          <Versions status={data} />
          {data.complete === false && <p className="notice waiting" role="status">A server does not answer: what workers run for it, and what waits for it, is missing here.</p>}
          {data.pools.length > 0 && <Pools pools={data.pools} />}
          {data.workers.length > 0 && <WorkerList status={data} />}
        </div>
      )}
    </div>
  );
}

function NoWorkers() {
  return (
    <div className="card">
      <EmptyState title="No workers" command={workerCommand("default")}>
        Scheduled steps wait until a worker connects.
      </EmptyState>
    </div>
  );
}

/** Workers of several versions are allowed during an upgrade, and worth a look after it. */
function Versions({ status }: { status: WorkerStatus }) {
  const versions = [...new Set(status.workers.map((each) => each.version))].sort();
  if (versions.length < 2) return null;
  return <p className="notice waiting" role="status">Workers run several versions: {versions.join(", ")}.</p>;
}

function Pools({ pools }: { pools: readonly PoolStatus[] }) {
  return (
    <ul className="pools" aria-label="Pools">
      {pools.map((each) => (
        <li key={each.pool} className="card padded stack">
          <div className="row">
            <h2 className="grow">{each.pool}</h2>
            <span className="soft">{each.workers} {each.workers === 1 ? "worker" : "workers"}</span>
          </div>
          {each.slots > 0 && <Load name={`Pool ${each.pool}`} busy={each.busy} slots={each.slots} unit="slots" />}
          <Share share={each.share ?? null} slots={each.slots} />
          <Backlog waiting={each.waiting ?? 0} oldest={each.oldest_s ?? null} slots={each.slots} />
          {each.workers === 0 && (
            <>
              <p className="bad">No worker serves this pool. Its steps wait until one connects:</p>
              <ShellCommand text={workerCommand(each.pool)} />
            </>
          )}
        </li>
      ))}
    </ul>
  );
}

/** The limit of one execution, where it is less than the pool. */
function Share({ share, slots }: { share: number | null; slots: number }) {
  if (share === null || share >= slots) return null;
  return <p className="soft" title="So that a long loop does not delay small executions; NOETL_SLOT_RESERVE changes it">one execution holds at most {share}; the rest is left to others</p>;
}

function Backlog({ waiting, oldest, slots }: { waiting: number; oldest: number | null; slots: number }) {
  if (waiting === 0) return <p className="soft">nothing waits</p>;
  return (
    <p className={slots === 0 ? "bad" : "soft"}>
      {waiting.toLocaleString()} waiting{oldest !== null && `, the first for ${duration(oldest)}`}
    </p>
  );
}

function Running({ frames, busy }: { frames: readonly RunningFrame[]; busy: number }) {
  const now = useNow(1000, frames.length > 0);
  const justBegun = Math.max(0, busy - frames.length);
  const executions = [...byExecution(frames).values()];
  const others = executions.length - EXECUTIONS_MAX;
  return (
    <>
      <ul className="running-frames">
        {executions.slice(0, EXECUTIONS_MAX).map((all) => (
          <Fragment key={all[0]?.execution_id}>
            {all.slice(0, FRAMES_MAX).map((each) => (
              <li key={each.frame}>
                <Link className="inline-link" to={`/executions/${each.execution_id}`} title={each.execution_id}>{each.path}</Link>{" "}
                <code>{each.frame}</code> {each.task != null && <span className="soft">{each.task}</span>}{" "}
                <span className="faint numbers" title={wholeTime(each.since)}>{duration(Math.max(0, secondsBetween(each.since, now)))}</span>
              </li>
            ))}
            {all.length > FRAMES_MAX && <li className="faint">and {all.length - FRAMES_MAX} more of this execution</li>}
          </Fragment>
        ))}
      </ul>
      {others > 0 && <p className="faint">and {others === 1 ? "1 more execution" : `${others} more executions`}</p>}
      {justBegun > 0 && frames.length === 0 && <p className="faint">{justBegun} just begun</p>}
    </>
  );
}

/** Executions in the order of their first frames. */
function byExecution(frames: readonly RunningFrame[]): Map<string, RunningFrame[]> {
  const found = new Map<string, RunningFrame[]>();
  for (const each of frames) {
    const known = found.get(each.execution_id);
    if (known === undefined) found.set(each.execution_id, [each]);
    else known.push(each);
  }
  return found;
}

function WorkerList({ status }: { status: WorkerStatus }) {
  return (
    <div className="card table-scroll" tabIndex={0} role="region" aria-label="Workers">
      <table className="table">
        <thead>
          <tr>
            <th scope="col">Worker</th>
            <th scope="col">Runs now</th>
            <th scope="col">Busy</th>
            <th scope="col">Pool</th>
            <th scope="col">Host</th>
            <th scope="col">Version</th>
            <th scope="col">Last seen</th>
            <th scope="col">Labels</th>
          </tr>
        </thead>
        <tbody>
          {status.workers.map((each) => (
            <tr key={`${each.pool} ${each.name}`}>
              <td>
                <span className="mono">{each.name}</span>{" "}
                {each.leaving && <span title="It finishes what it runs, and takes nothing new"><Badge tone="waiting">leaving</Badge></span>}
              </td>
              <td><Running frames={each.running ?? []} busy={each.busy} /></td>
              <td><Load name={each.name} busy={each.busy} slots={each.slots} /></td>
              <td>{each.pool}</td>
              <td className="soft">{each.host}, process {each.pid}</td>
              <td>{each.version}</td>
              <td title={wholeTime(each.at)}>{shortTime(each.at)}</td>
              <td>{Object.entries(each.labels).map(([key, value]) => <Badge key={key}>{key}={value}</Badge>)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Load({ name, busy, slots, unit }: { name: string; busy: number; slots: number; unit?: string }) {
  return (
    <div className="row load">
      <meter aria-label={`${name}: running calls`} min={0} max={Math.max(1, slots)} value={busy} />
      <span className="numbers">{busy} of {slots} {unit}</span>
    </div>
  );
}
