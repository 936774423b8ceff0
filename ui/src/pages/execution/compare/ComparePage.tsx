import { useState } from "react";
import { get } from "../../../api/client";
import { isLive } from "../../../api/commands";
import type { ExecutionDifference, ExecutionDocument, Head, HeadsPage, PartChange, StepDifference } from "../../../api/types";
import { useResource } from "../../../api/useResource";
import { Link, navigate, withQuery } from "../../../app/router";
import { StatusBadge } from "../../../design/Badge";
import { Button } from "../../../design/Button";
import { ErrorNotice } from "../../../design/ErrorNotice";
import { SkeletonRows } from "../../../design/Skeleton";
import { duration, shortTime } from "../../../design/time";
import type { PageProps } from "../../../routes";
import { CopyAs } from "../CopyAs";
import type { Action } from "../requests";
import "./compare.css";

type Compared = ExecutionDifference["a"];
type StepSide = StepDifference["a"];

const OTHERS = 50;

/** Chooses the other execution: one of the last of this playbook, or any id. */
function OtherChoice({ head, chosen, onChoose }: { head: Head; chosen: string | null; onChoose: (id: string) => void }) {
  const { data } = useResource<HeadsPage>(`others ${head.path}`, (signal) => get("/executions", { path: head.path, limit: OTHERS }, signal));
  const [typed, setTyped] = useState("");
  const others = (data?.items ?? []).filter((each) => each.execution_id !== head.execution_id);
  const listed = others.some((each) => each.execution_id === chosen);
  return (
    <form
      className="row wrap"
      onSubmit={(event) => {
        event.preventDefault();
        if (typed.trim() !== "") onChoose(typed.trim());
      }}
    >
      <select className="input" aria-label="Other execution of this playbook" value={listed ? (chosen ?? "") : ""} onChange={(event) => onChoose(event.target.value)}>
        <option value="" disabled>{others.length === 0 ? "no other execution of this playbook" : "choose an execution"}</option>
        {others.map((each) => <option key={each.execution_id} value={each.execution_id}>{shortTime(each.started_at)} · {each.status} · {each.execution_id}</option>)}
      </select>
      <input className="input mono" aria-label="Id of the other execution" placeholder="or its id" value={typed} onChange={(event) => setTyped(event.target.value)} />
      <Button type="submit" disabled={typed.trim() === ""}>Compare</Button>
    </form>
  );
}

function ExecutionCell({ label, execution }: { label: string; execution: Compared }) {
  return (
    <div className="card compare-side">
      <span className="row wrap"><b>{label}</b> <Link to={`/executions/${execution.id}`}>{execution.path}</Link> <StatusBadge status={execution.status ?? "running"} /></span>
      <span className="faint numbers">{duration(execution.seconds)}</span>
      <code className="faint cut" title={execution.id}>{execution.id}</code>
    </div>
  );
}

/** Opens the step in its execution. */
function Side({ label, id, step, side }: { label: string; id: string; step: string; side: StepSide }) {
  if (side == null) return <span className="faint">did not run</span>;
  const { runs = 0, status = "", seconds = 0, calls = 0, retries = 0 } = side;
  return (
    <span className="row wrap numbers">
      <Link className="row" to={`/executions/${id}?step=${encodeURIComponent(step)}`} title={`Open ${step} in ${label}`}>
        <StatusBadge status={status === "" ? "running" : status} />
        {status !== "" && <span>{duration(seconds)}</span>}
      </Link>
      {runs > 1 && <span>×{runs}</span>}
      <span className="faint">{calls} {calls === 1 ? "call" : "calls"}{retries > 0 && `, ${retries} retries`}</span>
    </span>
  );
}

function Changes({ title, changes }: { title: string; changes: readonly PartChange[] }) {
  if (changes.length === 0) return null;
  return (
    <section>
      <h2 className="label">{title}</h2>
      <table className="compare-table" aria-label={title}>
        <tbody>
          {changes.map((each) => (
            <tr key={each.path}>
              <th scope="row"><code>{each.path}</code></th>
              <td><code>{each.before ?? "–"}</code></td>
              <td><code>{each.after ?? "–"}</code></td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function DifferenceView({ difference }: { difference: ExecutionDifference }) {
  const { a, b, steps, workload, output, differs, same_route: sameRoute } = difference;
  const unfinished = [...(isLive(a.status ?? "running") ? ["A"] : []), ...(isLive(b.status ?? "running") ? ["B"] : [])];
  return (
    <div className="stack">
      <div className="compare-heads"><ExecutionCell label="A" execution={a} /><ExecutionCell label="B" execution={b} /></div>
      {!differs && <p className="notice ok" role="status">They do not differ, except for times.</p>}
      {unfinished.length > 0 && <p className="notice waiting">{unfinished.join(" and ")} {unfinished.length === 1 ? "has" : "have"} not ended: this compares what has happened so far.</p>}
      {!sameRoute && <p className="notice waiting">They took different routes.</p>}
      {a.digest !== b.digest && <p className="soft">They ran different texts of the playbook.</p>}
      <Changes title="Workload" changes={workload} />
      <section>
        <h2 className="label">Steps</h2>
        <table className="compare-table" aria-label="Steps">
          <thead><tr><th scope="col">Step</th><th scope="col">A</th><th scope="col">B</th><th scope="col">Differs in</th></tr></thead>
          <tbody>
            {steps.map((each) => (
              <tr key={each.step} className={each.same ? "" : "differs"}>
                <th scope="row">{each.step}</th>
                <td><Side label="A" id={a.id} step={each.step} side={each.a} /></td>
                <td><Side label="B" id={b.id} step={each.step} side={each.b} /></td>
                <td>{each.differs.join(", ")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <Changes title="Output" changes={output} />
    </div>
  );
}

/** Two executions side by side. `?with=` names the other one; a fork is compared with its origin. */
export default function ComparePage({ location, values }: PageProps) {
  const id = values.id ?? "";
  const head = useResource<Head>(id, (signal) => get(`/executions/${id}/head`, {}, signal));
  const asked = location.query.get("with");
  const show = useResource<ExecutionDocument>(asked === null ? id : null, (signal) => get(`/executions/${id}`, {}, signal));
  const other = asked ?? show.data?.fork?.execution_id ?? null;
  const found = useResource<ExecutionDifference>(other === null ? null : `${id} ${other}`, (signal) => get(`/executions/${id}/diff`, { with: other }, signal));
  const choose = (chosen: string) => navigate(withQuery(location, { with: chosen }), { replace: true });
  const actions: Action[] = other === null ? [] : [{
    name: "Compare", path: `/executions/${id}/diff?with=${other}`, method: "GET", body: {}, cli: `noetl diff ${id} ${other}`, python: null,
  }];
  return (
    <div className="page compare-page">
      <div className="page-head">
        <h1>Compare executions</h1>
        <span className="grow" />
        <CopyAs actions={actions} />
        <Link className="button" to={`/executions/${id}`}>To the execution</Link>
      </div>
      {head.error !== undefined && <ErrorNotice error={head.error} onRetry={head.reload} />}
      {head.data !== undefined && <OtherChoice head={head.data} chosen={other} onChoose={choose} />}
      {found.error !== undefined && <ErrorNotice error={found.error} onRetry={found.reload} />}
      {other !== null && found.data === undefined && found.error === undefined && <SkeletonRows rows={6} />}
      {found.data !== undefined && <DifferenceView difference={found.data} />}
    </div>
  );
}
