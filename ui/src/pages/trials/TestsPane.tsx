import { Suspense, lazy, useEffect, useState } from "react";
import { post } from "../../api/client";
import type { CaseResult, Coverage, TestsResponse } from "../../api/types";
import { Badge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { loadDraft, saveDraft } from "../playbooks/draft";
import { useAction } from "./useAction";
import "./trials.css";

const Editor = lazy(() => import("../../editor/Editor"));

/** A test file to begin with: it answers every task of the first step that calls something. */
export function firstTests(call: string): string {
  return [
    "playbook: playbook.yaml",
    "tests:",
    "- name: it ends well",
    "  workload: {}",
    "  stubs: # answers to calls, by step or step.task; the first that fits counts",
    `  - {call: ${call}, output: {}}`,
    "  expect:",
    "    status: ok",
    "",
  ].join("\n");
}

interface TestsPaneProps {
  name: string; // key of the stored draft
  text: string; // of the playbook
  call: string; // a step that the first test can name
  onProblem: (line: number, column: number) => void; // shows a place in the playbook
}

/** Tests of the text in the editor: they run in memory on the server, and no call is made. */
export function TestsPane({ name, text, call, onProblem }: TestsPaneProps) {
  const [tests, setTests] = useState(() => loadDraft(`tests ${name}`) ?? firstTests(call));
  const { data, error, busy, run } = useAction<TestsResponse>();
  useEffect(() => saveDraft(`tests ${name}`, tests), [name, tests]);
  const start = () => run(() => post("/playbooks/test", { text, tests, coverage: true }));
  const ofTests = data?.problems_of === "tests" ? data.problems : [];
  return (
    <div className="stack">
      <div className="row wrap">
        <Button variant="primary" disabled={busy} onClick={start} title="Ctrl S in the tests">{busy ? "Running…" : "Run the tests"}</Button>
        <span className="faint">Kept in this tab. Save them beside the playbook as <code>*.test.yaml</code>, for <code>noetl test</code>.</span>
      </div>
      <section className="tests-text" aria-label="Tests">
        <Suspense fallback={<SkeletonRows rows={8} />}>
          <Editor label="Tests" text={tests} problems={ofTests} schema={null} onChange={setTests} onSave={start} />
        </Suspense>
      </section>
      {error !== undefined && <ErrorNotice error={error} onRetry={start} />}
      {data !== undefined && <Results found={data} onProblem={onProblem} />}
    </div>
  );
}

function Results({ found, onProblem }: { found: TestsResponse; onProblem: TestsPaneProps["onProblem"] }) {
  const { passed, failed, tests, problems, problems_of: of, coverage = [] } = found;
  if (problems.length > 0) {
    return (
      <div className="notice error" role="alert">
        No test has run: the {of === "tests" ? "tests have" : "playbook has"} problems.
        <ul>
          {problems.filter((each) => each.severity === "error").map((each) => (
            <li key={`${each.line} ${each.column} ${each.message}`}>
              {of === "tests"
                ? <span className="numbers">line {each.line}</span>
                : <button type="button" className="problem numbers" onClick={() => onProblem(each.line, each.column)}>line {each.line}</button>}
              : {each.message}
            </li>
          ))}
        </ul>
      </div>
    );
  }
  return (
    <div className="stack">
      <p className="row" role="status">
        <Badge tone={failed > 0 ? "error" : "ok"}>{failed > 0 ? `${failed} failed` : "all passed"}</Badge>
        {passed} of {passed + failed} passed
      </p>
      <ul className="test-results" aria-label="Results">{tests.map((each) => <Result key={each.name} result={each} />)}</ul>
      {coverage.map((each) => <CoverageView key={each.file} coverage={each} />)}
    </div>
  );
}

function Result({ result }: { result: CaseResult }) {
  const { name, mismatches = [], route = [], calls = [] } = result;
  const passed = mismatches.length === 0;
  return (
    <li className={passed ? "passed" : "failed"}>
      <details open={!passed}>
        <summary><span aria-hidden="true">{passed ? "✓" : "✕"}</span> <span className="visually-hidden">{passed ? "passed" : "failed"}: </span>{name}</summary>
        {mismatches.map((each) => (
          <dl key={each.what} className="trial-facts">
            <dt><code>{each.what}</code></dt>
            <dd>expected <code>{each.expected}</code>, got <code>{each.actual}</code></dd>
          </dl>
        ))}
        <p className="soft">Route: {route.join(" → ") || "no step"}</p>
        {calls.length > 0 && (
          <p className="soft">Calls: {calls.slice(0, 20).map((each) => `${each.call} (${each.answer}, ${each.status})`).join(", ")}{calls.length > 20 && ` and ${calls.length - 20} more`}</p>
        )}
      </details>
    </li>
  );
}

function CoverageView({ coverage }: { coverage: Coverage }) {
  const { steps, arcs, rules, failure_arcs: failureArcs, missed } = coverage;
  const counts = [["steps", steps], ["arcs", arcs], ["rules", rules], ["failure arcs", failureArcs]] as const;
  return (
    <section>
      <h3 className="label">Coverage</h3>
      <p>{counts.filter(([, { of }]) => of > 0).map(([label, { ran, of }]) => `${ran} of ${of} ${label}`).join(", ")}</p>
      {missed.length > 0 && (
        <details>
          <summary>{missed.length} never ran</summary>
          <ul>{missed.map((each) => <li key={`${each.kind} ${each.name} ${each.line}`}>{each.kind} {each.name} <span className="faint">line {each.line}</span></li>)}</ul>
        </details>
      )}
    </section>
  );
}
