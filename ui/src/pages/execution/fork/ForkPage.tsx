import { Suspense, lazy, useEffect, useMemo, useState } from "react";
import { get, post } from "../../../api/client";
import { errorMessage } from "../../../api/problem";
import type { ForkPlan, ForkResponse, Graph, Head } from "../../../api/types";
import { useResource } from "../../../api/useResource";
import { Link, navigate, withQuery } from "../../../app/router";
import { useHasScope } from "../../../app/session";
import { Button } from "../../../design/Button";
import { ErrorNotice } from "../../../design/ErrorNotice";
import { Skeleton, SkeletonRows } from "../../../design/Skeleton";
import { loadable } from "../../../design/loadable";
import { toast } from "../../../design/toasts";
import type { PageProps } from "../../../routes";
import { InputField } from "../../playbooks/RunForm";
import { useCheck } from "../../playbooks/useCheck";
import { type Input, type Written, parseInputs, readInputs } from "../../playbooks/workload";
import { CopyAs } from "../CopyAs";
import { forkAction } from "../requests";
import "../execution.css";
import "./fork.css";
import { planOverlay } from "./plan";

const NetGraph = loadable(async () => (await import("../../../graph/NetGraph")).NetGraph, <Skeleton height={240} />);
const Editor = lazy(() => import("../../../editor/Editor"));
const DEBOUNCE_MS = 500;

function useDebounced<T>(value: T): T {
  const [late, setLate] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLate(value), DEBOUNCE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return late;
}

function Runs({ title, tone, items }: { title: string; tone: string; items: readonly { name: string; why?: string }[] }) {
  if (items.length === 0) return null;
  return (
    <section>
      <h3 className="label"><span className={`plan-mark ${tone}`} aria-hidden="true" /> {title} ({items.length})</h3>
      <ul className="plan-runs">
        {items.map(({ name, why }) => <li key={name}><code>{name}</code>{why !== undefined && <span className="soft"> {why}</span>}</li>)}
      </ul>
    </section>
  );
}

/** The secret inputs of a text. An execution that has ended with ok no longer has them; others hand theirs over. */
function secretInputs(text: string, isOk: boolean): Input[] {
  const inputs = parseInputs(text).filter((each) => each.kind === "secret");
  if (isOk) return inputs;
  return inputs.map((each) => ({ ...each, hint: `${each.hint ?? "secret"}; empty: that of the old execution`, required: false }));
}

function PlanView({ plan }: { plan: ForkPlan }) {
  const names = (runs: readonly string[]) => runs.map((name) => ({ name }));
  const { kept_calls: calls = 0, kept_iterations: iterations = 0, dropped = [], unseen = [] } = plan;
  return (
    <div className="stack" role="status">
      <p className="soft">
        {calls.toLocaleString()} {calls === 1 ? "call is" : "calls are"} kept and not made again
        {iterations > 0 && `, with ${iterations.toLocaleString()} iterations of loops`}. The plan uses the events up to {plan.at.toLocaleString()}.
      </p>
      <Runs title="Kept" tone="ok" items={names(plan.kept)} />
      <Runs title="Redone" tone="waiting" items={plan.redone.map(({ run, why }) => ({ name: run, why }))} />
      <Runs title="New steps" tone="running" items={names(plan.new)} />
      <Runs title="Dropped: the new text does not have these steps" tone="neutral" items={names(dropped)} />
      <Runs title="Kept, but their code may read files that were not compared" tone="neutral" items={names(unseen)} />
    </div>
  );
}

/** Continues an execution in a new one: the plan first, then the action. `?at=` names the last event that counts. */
export default function ForkPage({ location, values }: PageProps) {
  const id = values.id ?? "";
  const at = Number(location.query.get("at")) || null;
  const canRun = useHasScope("run");
  const head = useResource<Head>(id, (signal) => get(`/executions/${id}/head`, {}, signal));
  const digest = head.data?.digest ?? "";
  const text = useResource<{ text: string }>(digest === "" ? null : `text ${digest}`, (signal) => get(`/texts/${digest}`, {}, signal));
  const [edited, setEdited] = useState<string | null>(null); // null: the text of the old execution
  const [options, setOptions] = useState({ from_step: "", failed_only: false });
  const [written, setWritten] = useState<Written>({}); // of secret inputs
  const [starting, setStarting] = useState(false);
  const original = text.data?.text ?? "";
  const current = edited ?? original;
  const checked = useCheck(current);
  const graph: Graph | null = checked.graph;
  const isOk = head.data?.status === "ok";
  const inputs = useMemo(() => secretInputs(current, isOk), [current, isOk]);
  const { secrets, wrong } = readInputs(inputs, written);
  const isChanged = edited !== null && edited !== original;
  const wanted = {
    ...(isChanged ? { text: edited } : {}),
    ...(at === null ? {} : { at }),
    ...(options.from_step === "" ? {} : { from_step: options.from_step }),
    ...(options.failed_only ? { failed_only: true } : {}),
  };
  const asked = useDebounced(JSON.stringify(wanted));
  const isFresh = asked === JSON.stringify(wanted);
  const plan = useResource<ForkResponse>(canRun ? `${id} ${asked}` : null, (signal) =>
    post(`/executions/${id}/fork`, { ...(JSON.parse(asked) as object), dry_run: true }, { signal }));
  const start = async () => {
    setStarting(true);
    try {
      const { execution_id: forked } = await post<ForkResponse>(`/executions/${id}/fork`, { ...wanted, secrets });
      if (forked !== undefined) navigate(`/executions/${forked}`);
    } catch (error) {
      toast(errorMessage(error), "error");
    } finally {
      setStarting(false);
    }
  };
  const steps = graph?.steps.filter((step) => step.role === "step").map((step) => step.name) ?? [];
  const shown = plan.data?.plan;
  return (
    <div className="page fork-page">
      <div className="page-head">
        <h1>Fork {head.data?.path ?? ""}</h1>
        <span className="row wrap page-actions">
          <CopyAs actions={[forkAction(id, wanted, Object.keys(secrets))]} />
          <Link className="button" to={`/executions/${id}`}>To the execution</Link>
          <Button variant="primary" disabled={!canRun || starting || !isFresh || shown === undefined || plan.error !== undefined || Object.keys(wrong).length > 0} onClick={() => void start()}>
            {starting ? "Starting…" : "Start the fork"}
          </Button>
        </span>
      </div>
      {head.error !== undefined && <ErrorNotice error={head.error} onRetry={head.reload} />}
      {!canRun && <p className="notice waiting">Your token cannot start executions: it lacks the scope “run”.</p>}
      <div className="fork-parts">
        <section className="card net-pane" aria-label="Net with the plan">
          {graph === null ? <Skeleton height={240} /> : <NetGraph graph={graph} overlay={shown === undefined ? null : planOverlay(shown, graph)} selected={null} onSelect={(step) => setOptions({ ...options, from_step: step })} />}
        </section>
        <section className="card fork-plan stack" aria-label="Plan">
          <div className="row wrap">
            <label className="field">
              <span className="label">Repeat from step</span>
              <select className="input" value={options.from_step} onChange={(event) => setOptions({ ...options, from_step: event.target.value })}>
                <option value="">only what has changed</option>
                {steps.map((step) => <option key={step}>{step}</option>)}
              </select>
            </label>
            <label className="row">
              <input type="checkbox" checked={options.failed_only} onChange={(event) => setOptions({ ...options, failed_only: event.target.checked })} />
              Keep all finished work, even if its text or its input has changed
            </label>
            {at !== null && <span className="row">Up to event {at.toLocaleString()} <Button small variant="quiet" onClick={() => navigate(withQuery(location, { at: null }), { replace: true })}>All events</Button></span>}
          </div>
          {inputs.map((each) => (
            <InputField
              key={each.name} input={each} value={written[each.name] ?? ""} wrong={undefined}
              onChange={(value) => setWritten((old) => ({ ...old, [each.name]: value }))}
            />
          ))}
          {plan.error !== undefined && <ErrorNotice error={plan.error} onRetry={plan.reload} />}
          {shown === undefined && plan.error === undefined && canRun && <SkeletonRows rows={5} />}
          {shown !== undefined && plan.error === undefined && <div className={isFresh ? "" : "stale"}><PlanView plan={shown} /></div>}
        </section>
        <section className="card fork-text" aria-label="Text">
          {text.data === undefined ? <SkeletonRows rows={10} /> : (
            <Suspense fallback={<SkeletonRows rows={10} />}>
              <Editor text={current} problems={checked.problems} schema={null} onChange={setEdited} onSave={() => undefined} />
            </Suspense>
          )}
          {isChanged && <Button small variant="quiet" onClick={() => setEdited(null)}>Discard changes</Button>}
        </section>
      </div>
    </div>
  );
}

