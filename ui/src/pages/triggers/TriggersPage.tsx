import { useState } from "react";
import { get, request } from "../../api/client";
import { errorMessage } from "../../api/problem";
import type { Firing, Trigger, TriggerDetails, TriggerList } from "../../api/types";
import { useInterval } from "../../api/useInterval";
import { useResource } from "../../api/useResource";
import { Link, useQueryParam } from "../../app/router";
import { useHasScope } from "../../app/session";
import { Badge, StatusBadge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { shortTime, wholeTime } from "../../design/time";
import { toast } from "../../design/toasts";
import { playbookLink } from "../playbooks/links";
import "./triggers.css";

const LOOK_MS = 5000;
const keyOf = ({ path, name }: { path: string; name: string }) => `${path}:${name}`;

function firedWords(times: number): string {
  if (times === 0) return "has not fired yet";
  return times === 1 ? "fired once" : `fired ${times.toLocaleString()} times`;
}

async function command(trigger: Trigger, verb: "pause" | "resume" | "fire"): Promise<void> {
  const { path, name } = trigger;
  try {
    const answer = await request<Partial<Firing>>(`/triggers/${verb}`, { method: "POST", query: { path, name } });
    if (verb !== "fire") toast(`${verb === "pause" ? "Paused" : "Resumed"} ${name} of ${path}`);
    else toast(answer.execution_id == null ? `${name} started nothing: ${answer.detail ?? answer.status ?? ""}` : `${name} has started an execution of ${path}`);
  } catch (error) {
    toast(errorMessage(error), "error");
  }
}

function History({ details }: { details: TriggerDetails }) {
  if (details.history.length === 0) return <p className="soft">It has not fired yet.</p>;
  return (
    <div className="table-scroll" tabIndex={0} role="region" aria-label="Triggers">
      <table className="table">
        <thead><tr><th scope="col">At</th><th scope="col">Result</th><th scope="col">Scheduled for</th><th scope="col">Execution</th></tr></thead>
        <tbody>
          {details.history.map((each, place) => (
            <tr key={each.number ?? place}>
              <td title={wholeTime(each.at)}>{shortTime(each.at)}</td>
              <td><StatusBadge status={each.status} /> {each.detail !== undefined && <span className="soft">{each.detail}</span>}</td>
              <td>{each.scheduled_at === undefined ? "" : shortTime(each.scheduled_at)}</td>
              <td>{each.execution_id !== null && <Link className="mono" to={`/executions/${each.execution_id}`}>{each.execution_id.slice(-12)}</Link>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The next times and the history of one trigger. `version`: it has fired meanwhile. */
function Details({ trigger, version }: { trigger: Trigger; version: string }) {
  const { path, name } = trigger;
  const { data, error, reload } = useResource<TriggerDetails>(`${keyOf(trigger)} ${version}`, (signal) => get("/triggers/one", { path, name }, signal));
  if (error !== undefined) return <ErrorNotice error={error} onRetry={reload} />;
  if (data === undefined) return <SkeletonRows rows={2} />;
  return (
    <div className="stack trigger-details">
      <section>
        <h2 className="label">Next times</h2>
        {data.next_times.length === 0 ? (
          <p className="soft">{trigger.paused ? "None: it is paused." : "None: it fires on requests."}</p>
        ) : (
          <ul className="trigger-times numbers">{data.next_times.map((at) => <li key={at}>{wholeTime(at)}</li>)}</ul>
        )}
      </section>
      <section>
        <h2 className="label">History</h2>
        <History details={data} />
      </section>
    </div>
  );
}

export default function TriggersPage() {
  const list = useResource<TriggerList>("triggers", (signal) => get("/triggers", {}, signal));
  const { reload } = list;
  useInterval(LOOK_MS, reload);
  const [open, setOpen] = useQueryParam("open");
  const [busy, setBusy] = useState<string | null>(null);
  const canRun = useHasScope("run");
  const act = async (trigger: Trigger, verb: "pause" | "resume" | "fire") => {
    setBusy(keyOf(trigger));
    await command(trigger, verb);
    setBusy(null);
    reload();
  };
  return (
    <div className="page">
      <div className="page-head"><h1>Triggers</h1></div>
      {list.error !== undefined && <ErrorNotice error={list.error} onRetry={reload} />}
      {list.data === undefined && list.error === undefined && <SkeletonRows />}
      {list.data?.items.length === 0 && (
        <div className="card">
          <EmptyState title="No triggers">A registered playbook with <code>triggers</code> starts automatically: at fixed times, at intervals, on a request, or for a NATS message.</EmptyState>
        </div>
      )}
      <div className="stack">
        {list.data?.items.map((each) => {
          const key = keyOf(each);
          return (
            <section key={key} className="card trigger" aria-label={key}>
              <div className="row wrap">
                <button type="button" className="trigger-fold" aria-expanded={open === key} aria-label={`Details of ${key}`} onClick={() => setOpen(open === key ? null : key)}>
                  <span aria-hidden="true">{open === key ? "▾" : "▸"}</span> <b>{each.name}</b>
                </button>
                <Link to={playbookLink(each.path)}>{each.path}</Link>
                <Badge tone={each.paused ? "waiting" : "ok"}>{each.paused ? "paused" : each.kind}</Badge>
                <code>{each.schedule}</code>
                <span className="soft grow numbers trigger-when">
                  {each.next_at != null && <span title={wholeTime(each.next_at)}>next {shortTime(each.next_at)}, </span>}{firedWords(each.fired)}
                </span>
                {canRun && (
                  <>
                    <Button small disabled={busy === key} aria-label={`Fire ${key}`} onClick={() => void act(each, "fire")}>Fire</Button>
                    <Button small disabled={busy === key} aria-label={`${each.paused ? "Resume" : "Pause"} ${key}`} onClick={() => void act(each, each.paused ? "resume" : "pause")}>
                      {each.paused ? "Resume" : "Pause"}
                    </Button>
                  </>
                )}
              </div>
              {open === key && <Details trigger={each} version={`${each.fired} ${each.next_at ?? ""} ${each.paused}`} />}
            </section>
          );
        })}
      </div>
    </div>
  );
}
