import { type SyntheticEvent, useCallback, useState } from "react";
import { get, post, request } from "../../../api/client";
import { errorMessage } from "../../../api/problem";
import type { DebugDocument, Evaluation, Graph, Hold, Scopes, Timeline } from "../../../api/types";
import { useInterval } from "../../../api/useInterval";
import { useResource } from "../../../api/useResource";
import { Link } from "../../../app/router";
import { useHasScope } from "../../../app/session";
import { Button } from "../../../design/Button";
import { ErrorNotice } from "../../../design/ErrorNotice";
import { SkeletonRows } from "../../../design/Skeleton";
import { toast } from "../../../design/toasts";
import { JsonTree } from "../data/JsonTree";
import "./debug.css";

/** A value as it is typed: JSON, or else text. */
function typed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

interface HeldProps {
  id: string;
  held: Hold;
  seq: number; // of the log: values may have changed
  canRun: boolean;
  onDone: (work: Promise<unknown>) => void;
}

/** Evaluates an expression where something is held. */
function Evaluate({ id, at }: { id: string; at: string }) {
  const [text, setText] = useState("");
  const [result, setResult] = useState<{ expression: string; found: Evaluation } | null>(null);
  const evaluate = async (event: SyntheticEvent) => {
    event.preventDefault();
    try {
      setResult({ expression: text, found: await post<Evaluation>(`/executions/${id}/debug/evaluate`, { expression: text, at }) });
    } catch (error) {
      toast(errorMessage(error), "error");
    }
  };
  return (
    <form className="stack" onSubmit={(event) => void evaluate(event)}>
      <span className="row">
        <input className="input mono" aria-label="Expression" placeholder="ctx.total + 1" value={text} onChange={(event) => setText(event.target.value)} />
        <Button small type="submit" disabled={text.trim() === ""}>Print</Button>
      </span>
      {result !== null && (
        <div role="status">
          <code>{result.expression}</code>
          {result.found.error != null ? <p className="bad">{result.found.error}</p> : <JsonTree value={result.found.masked === true ? "***" : result.found.value} level={1} />}
        </div>
      )}
    </form>
  );
}

/** Changes a value where something is held; the log records it. */
function SetValue({ id, held, onDone }: HeldProps) {
  const [path, setPath] = useState("ctx.");
  const [value, setValue] = useState("");
  return (
    <form
      className="row"
      onSubmit={(event) => {
        event.preventDefault();
        onDone(post(`/executions/${id}/debug/set`, { at: held.at, set: { [path.trim()]: typed(value) } }));
      }}
    >
      <input className="input mono" aria-label="Value to change" value={path} onChange={(event) => setPath(event.target.value)} />
      <input className="input mono" aria-label="New value, JSON or text" placeholder="JSON or text" value={value} onChange={(event) => setValue(event.target.value)} />
      <Button small type="submit" disabled={!/^(ctx|step|iter)\.\w/.test(path.trim()) || value === ""}>Set</Button>
    </form>
  );
}

function HeldView(props: HeldProps) {
  const { id, held, seq, canRun, onDone } = props;
  const scopes = useResource<Scopes>(`${id} ${held.at} ${seq}`, (signal) => get(`/executions/${id}/debug/scopes`, { at: held.at }, signal));
  return (
    <section className="debug-held card" aria-label={`Held: ${held.at}`}>
      <div className="row wrap">
        <b className="mono">{held.at}</b>
        <span>before {held.task == null ? "the step" : "the task"} <code>{held.place}</code></span>
        {held.line != null && <span className="faint numbers">line {held.line}</span>}
        {(held.attempt ?? 1) > 1 && <span className="soft">attempt {held.attempt}</span>}
        <span className="grow" />
        {canRun && <Button small onClick={() => onDone(post(`/executions/${id}/debug/step`, { at: held.at }))}>Step</Button>}
        {canRun && <Button small variant="primary" onClick={() => onDone(post(`/executions/${id}/debug/continue`, { at: held.at }))}>Continue</Button>}
      </div>
      {held.error != null && <p className="bad">The breakpoint cannot be checked: {held.error}</p>}
      <div className="debug-values">
        <div>
          <h3 className="label">Values</h3>
          {scopes.error !== undefined && <ErrorNotice error={scopes.error} />}
          {scopes.data === undefined ? scopes.error === undefined && <SkeletonRows rows={3} /> : <JsonTree value={scopes.data.scopes} />}
        </div>
        <div className="stack">
          <h3 className="label">Evaluate</h3>
          <Evaluate id={id} at={held.at} />
          {canRun && <><h3 className="label">Change</h3><SetValue {...props} /></>}
        </div>
      </div>
    </section>
  );
}

/** Children, also of loops, in which a breakpoint holds something. Each has a page of its own. */
function HeldChildren({ children }: { children: NonNullable<DebugDocument["held_children"]> }) {
  return (
    <ul className="held-children" aria-label="Held children">
      {children.map((child) => (
        <li key={child.execution_id} className="debug-held card row wrap">
          <b className="mono">{child.at}</b>
          <span>
            waits for <Link className="inline-link" to={`/executions/${child.execution_id}?tab=debug`}>{child.path}</Link>,
            which is held before {child.held.map((held, place) => <span key={held.at}>{place > 0 && ", "}<code>{held.place}</code> in <code>{held.at}</code></span>)}
          </span>
          <span className="grow" />
          <Link className="button small" to={`/executions/${child.execution_id}?tab=debug`} aria-label={`Debug the child of ${child.at}`}>Debug the child</Link>
        </li>
      ))}
    </ul>
  );
}

const CHILDREN_MS = 2000; // the log of the parent does not grow when a child is held

/** Breakpoints of an execution that has not ended, and what they hold. */
export default function Debug({ timeline, step }: { timeline: Timeline; step: string | null }) {
  const { execution_id: id, digest, seq } = timeline;
  const canRun = useHasScope("run");
  const { data, error, reload } = useResource<DebugDocument>(`debug ${id} ${seq}`, (signal) => get(`/executions/${id}/debug`, {}, signal));
  const graph = useResource<Graph>(`graph ${digest}`, (signal) => post("/playbooks/graph", { digest }, { signal }));
  const [shown, setShown] = useState<DebugDocument | null>(null);
  const [place, setPlace] = useState<string | null>(null);
  const [when, setWhen] = useState("");
  if (data !== undefined && data !== shown && (shown === null || data.seq >= shown.seq)) setShown(data);
  const heldChildren = shown?.held_children ?? [];
  const hasChildren = (shown?.children ?? []).length > 0;
  useInterval(CHILDREN_MS, useCallback(() => {
    if (hasChildren) reload();
  }, [hasChildren, reload]));
  const onDone = (work: Promise<unknown>) => {
    work.then((answer) => {
      setShown(answer as DebugDocument);
      reload();
    }, (failure: unknown) => toast(errorMessage(failure), "error"));
  };
  const steps = graph.data?.steps.filter((each) => each.role === "step").map((each) => each.name) ?? [];
  const wanted = place ?? step ?? "";
  return (
    <div className="debug stack">
      {error !== undefined && <ErrorNotice error={error} onRetry={reload} />}
      {canRun && (
        <form
          className="row wrap"
          onSubmit={(event) => {
            event.preventDefault();
            onDone(post(`/executions/${id}/breakpoints`, { place: wanted.trim(), ...(when.trim() === "" ? {} : { when: when.trim() }) }));
            setWhen("");
          }}
        >
          <input className="input mono" list="debug-steps" aria-label="Place of the breakpoint" placeholder="step or step.task" value={wanted} onChange={(event) => setPlace(event.target.value)} />
          <datalist id="debug-steps">{steps.map((name) => <option key={name} value={name} />)}</datalist>
          <input className="input mono" aria-label="Condition" placeholder="if: iter.index == 17" value={when} onChange={(event) => setWhen(event.target.value)} />
          <Button small type="submit" disabled={wanted.trim() === ""}>Set breakpoint</Button>
          <Button small variant="quiet" onClick={() => onDone(post(`/executions/${id}/breakpoints`, { place: "*", once: true }))}>Hold at the next step</Button>
        </form>
      )}
      {shown === null && error === undefined && <SkeletonRows rows={2} />}
      {shown !== null && (
        <ul className="breakpoints" aria-label="Breakpoints">
          {shown.breakpoints.map((each) => (
            <li key={each.place} className="row">
              <span className="breakpoint-mark" aria-hidden="true" /> <code>{each.place === "*" ? "the next step or task" : each.place}</code>
              {each.when != null && <span className="soft">if <code>{each.when}</code></span>}
              {each.line != null && <span className="faint numbers">line {each.line}</span>}
              {canRun && <Button small variant="quiet" aria-label={`Remove ${each.place}`} onClick={() => onDone(request(`/executions/${id}/breakpoints`, { method: "DELETE", query: { place: each.place } }))}>Remove</Button>}
            </li>
          ))}
          {shown.breakpoints.length === 0 && <li className="faint">No breakpoints. An execution that stops at a breakpoint uses no worker until you continue it.</li>}
        </ul>
      )}
      {shown?.held.map((held) => <HeldView key={held.at} id={id} held={held} seq={shown.seq} canRun={canRun} onDone={onDone} />)}
      {heldChildren.length > 0 && <HeldChildren children={heldChildren} />}
      {shown !== null && shown.held_left_out > 0 && <p className="faint">{shown.held_left_out.toLocaleString()} more are held</p>}
    </div>
  );
}
