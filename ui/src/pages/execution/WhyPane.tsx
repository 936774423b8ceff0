import { get } from "../../api/client";
import type { ArcCheck, GuardCheck, RunWhy, Why } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Failed } from "../../design/Failed";
import { SkeletonRows } from "../../design/Skeleton";

function Seen({ seen }: { seen: ArcCheck["seen"] }) {
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

const signOf = (held: boolean | null | undefined): string => (held == null ? "–" : held ? "✓" : "✕");
const saysOf = (held: boolean | null | undefined): string => (held == null ? "not asked" : held ? "held" : "did not hold");

function Arc({ arc }: { arc: ArcCheck }) {
  return (
    <li className={`guard ${saysOf(arc.held).replaceAll(" ", "-")}`}>
      <span title={saysOf(arc.held)}><span aria-hidden="true">{signOf(arc.held)}</span><span className="visually-hidden">{saysOf(arc.held)}</span></span>
      <div className="grow">
        <div>→ <b>{arc.to}</b> {arc.when === null ? <span className="soft">always</span> : <code>{arc.when}</code>}</div>
        {arc.why !== undefined && arc.why !== "" && <div className="faint">{arc.why}</div>}
        <Seen seen={arc.seen} />
      </div>
    </li>
  );
}

function Admission({ guards }: { guards: readonly GuardCheck[] }) {
  return guards.map((guard, place) => (
    <li key={place} className="guard">
      <span title={saysOf(guard.held)}>{signOf(guard.held)}</span>
      <div className="grow">
        <code>{guard.when ?? "else"}</code> <span className="soft">{guard.allow ? "lets it in" : "keeps it out"}</span>
        <Seen seen={guard.seen} />
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
            {source.run == null ? "The execution was started" : <>A token came from <code>{source.run}</code></>}
            {source.arc != null && <ul><Arc arc={source.arc} /></ul>}
          </li>
        ))}
        {run.called_by != null && <li>Called by <code>{run.called_by}</code></li>}
      </ul>
      {admission.length > 0 && <><h3 className="label">It was let in</h3><ul><Admission guards={admission} /></ul></>}
      {run.waits_for != null && <p>It waits {run.waits_for}.</p>}
      {run.error != null && <p className="bad">{run.error.message}</p>}
      {arcs.length > 0 && <><h3 className="label">Then its arcs were asked</h3><ul>{arcs.map((arc) => <Arc key={arc.place} arc={arc} />)}</ul></>}
    </section>
  );
}

/** Why a step ran, waited or did not run, with the values that its guards read. */
export function WhyPane({ id, step, last }: { id: string; step: string; last: number }) {
  const { data: why, error, reload } = useResource<Why>(`${id} ${step} ${last}`, (signal) => get(`/executions/${id}/why`, { step }, signal));
  if (error !== undefined) return <Failed error={error} onRetry={reload} />;
  if (why === undefined) return <SkeletonRows rows={4} />;
  return (
    <div className="stack why">
      <p className="soft">
        {why.ran > 0 ? `${step} ran ${why.ran === 1 ? "once" : `${why.ran.toLocaleString()} times`}.` : `${step} did not run.`}
        {why.ran > why.runs.length && ` The last ${why.runs.length} are told.`}
      </p>
      {why.tokens.map((token) => (
        <section key={token.source.token}>
          <h2>A token waits: {token.source.token}</h2>
          {token.held_by.map((words) => <p key={words}>{words}</p>)}
          <ul><Admission guards={token.admission} /></ul>
          {token.error != null && <p className="bad">{token.error.message}</p>}
        </section>
      ))}
      {why.ways.length > 0 && (
        <section>
          <h2>Ways to it</h2>
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
