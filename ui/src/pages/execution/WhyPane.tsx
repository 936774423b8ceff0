import { get } from "../../api/client";
import { isLive } from "../../api/commands";
import type { ArcEvaluation, GuardEvaluation, RunWhy, Why } from "../../api/types";
import { useResource } from "../../api/useResource";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";

function ValuesRead({ seen }: { seen: ArcEvaluation["seen"] }) {
  if (seen === undefined || seen.length === 0) return null;
  return (
    <dl className="seen">
      {seen.map(({ path, value }) => (
        <div key={path}>
          <dt><code>{path}</code></dt>
          <dd><code>{value}</code></dd>
        </div>
      ))}
    </dl>
  );
}

const iconOf = (result: boolean | null | undefined): string => (result == null ? "–" : result ? "✓" : "✕");
const resultOf = (result: boolean | null | undefined): string => (result == null ? "not evaluated" : result ? "true" : "false");

function Arc({ arc }: { arc: ArcEvaluation }) {
  return (
    <li className={`guard ${resultOf(arc.held).replaceAll(" ", "-")}`}>
      <span title={resultOf(arc.held)}><span aria-hidden="true">{iconOf(arc.held)}</span><span className="visually-hidden">{resultOf(arc.held)}</span></span>
      <div className="grow">
        <div>→ <b>{arc.to}</b> {arc.when === null ? <span className="soft">always</span> : <code>{arc.when}</code>}</div>
        {arc.why !== undefined && arc.why !== "" && <div className="faint">{arc.why}</div>}
        <ValuesRead seen={arc.seen} />
      </div>
    </li>
  );
}

function Admission({ guards }: { guards: readonly GuardEvaluation[] }) {
  return guards.map((guard, index) => (
    <li key={index} className="guard">
      <span title={resultOf(guard.held)}>{iconOf(guard.held)}</span>
      <div className="grow">
        <code>{guard.when ?? "else"}</code> <span className="soft">{guard.allow ? "admits" : "does not admit"}</span>
        <ValuesRead seen={guard.seen} />
      </div>
    </li>
  ));
}

function RunReasons({ run }: { run: RunWhy }) {
  const { sources = [], admission = [], arcs = [] } = run;
  return (
    <section className="why-run">
      <h2>{run.id}</h2>
      <ul>
        {sources.map((source) => (
          <li key={source.token}>
            {source.run == null ? "The execution was started" : <>A token arrived from <code>{source.run}</code></>}
            {source.arc != null && <ul><Arc arc={source.arc} /></ul>}
          </li>
        ))}
        {run.called_by != null && <li>Called by <code>{run.called_by}</code></li>}
      </ul>
      {admission.length > 0 && <><h3 className="label">Admission</h3><ul><Admission guards={admission} /></ul></>}
      {run.waits_for != null && <p>Waits {run.waits_for}.</p>}
      {run.error != null && <p className="bad">{run.error.message}</p>}
      {arcs.length > 0 && <><h3 className="label">Arcs</h3><ul>{arcs.map((arc) => <Arc key={arc.place} arc={arc} />)}</ul></>}
    </section>
  );
}

function summaryOf({ step, ran, runs, status }: Why): string {
  if (ran === 0) return `${step} did not run.`;
  const last = runs.at(-1);
  const often = ran === 1 ? "once" : `${ran.toLocaleString()} times`;
  if (last === undefined || last.ended != null || !isLive(status)) return `${step} ran ${often}.`;
  const now = last.running != null ? `runs the task ${last.running}` : last.waits_for != null ? "waits" : "has not ended";
  return `${step} has started ${often}; ${last.id} ${now}.`;
}

/** Why a step ran, waited or did not run, with the values that its guards read. */
export function WhyPane({ id, step, last }: { id: string; step: string; last: number }) {
  const { data: why, error, reload } = useResource<Why>(`${id} ${step} ${last}`, (signal) => get(`/executions/${id}/why`, { step }, signal));
  if (error !== undefined) return <ErrorNotice error={error} onRetry={reload} />;
  if (why === undefined) return <SkeletonRows rows={4} />;
  return (
    <div className="stack why">
      <p className="soft">
        {summaryOf(why)}
        {why.ran > why.runs.length && ` The last ${why.runs.length} are shown.`}
      </p>
      {why.now != null && <p className="notice waiting">Nothing runs now: {why.now}.</p>}
      {why.tokens.map((token) => (
        <section key={token.source.token}>
          <h2>A token waits: {token.source.token}</h2>
          {token.held_by.map((reason) => <p key={reason}>{reason}</p>)}
          <ul><Admission guards={token.admission} /></ul>
          {token.error != null && <p className="bad">{token.error.message}</p>}
        </section>
      ))}
      {why.ways.length > 0 && (
        <section>
          <h2>Paths to this step</h2>
          <ul>{why.ways.map((way) => (
            <li key={`${way.step} ${way.arc.place}`}><b>{way.step}</b>: {way.why}<ul><Arc arc={way.arc} /></ul></li>
          ))}</ul>
        </section>
      )}
      {why.unreached != null && <p>{why.unreached}</p>}
      {[...why.runs].reverse().map((run) => <RunReasons key={run.id} run={run} />)}
    </div>
  );
}
