import { Suspense, lazy, useState } from "react";
import { get, post } from "../../../api/client";
import type { Head, WhatIfResponse } from "../../../api/types";
import { useResource } from "../../../api/useResource";
import { Link } from "../../../app/router";
import { Button } from "../../../design/Button";
import { EmptyState } from "../../../design/EmptyState";
import { ErrorNotice } from "../../../design/ErrorNotice";
import { SkeletonRows } from "../../../design/Skeleton";
import type { PageProps } from "../../../routes";
import { WhatIfView } from "../../trials/WhatIfView";
import { useAction } from "../../trials/useAction";
import { useCheck } from "../../playbooks/useCheck";
import "../../trials/trials.css";

const Editor = lazy(() => import("../../../editor/Editor"));

/** What an edited text would have done in this execution: its recorded calls answer, and no call is made. */
export default function WhatIfPage({ values }: PageProps) {
  const id = values.id ?? "";
  const head = useResource<Head>(id, (signal) => get(`/executions/${id}/head`, {}, signal));
  const digest = head.data?.digest ?? "";
  const text = useResource<{ text: string }>(digest === "" ? null : `text ${digest}`, (signal) => get(`/texts/${digest}`, {}, signal));
  const [edited, setEdited] = useState<string | null>(null); // null: the text of the execution
  const [asked, setAsked] = useState<string | null>(null); // the text that was compared
  const { data, error, busy, run } = useAction<WhatIfResponse>();
  const current = edited ?? text.data?.text ?? "";
  const checked = useCheck(current);
  const compare = () => {
    setAsked(current);
    run(() => post("/playbooks/what-if", { text: current, executions: [id] }));
  };
  const [item] = data?.items ?? [];
  const problem = data?.problems?.find((each) => each.severity === "error");
  return (
    <div className="page">
      <div className="page-head">
        <h1>What if {head.data?.path ?? ""}</h1>
        <span className="grow" />
        <Link className="button" to={`/executions/${id}`}>To the execution</Link>
        <Button variant="primary" disabled={busy || text.data === undefined} onClick={compare}>{busy ? "Comparing…" : "Compare"}</Button>
      </div>
      {head.error !== undefined && <ErrorNotice error={head.error} onRetry={head.reload} />}
      <div className="what-if-parts">
        <section className="card what-if-text" aria-label="Text">
          {text.data === undefined ? <SkeletonRows rows={10} /> : (
            <Suspense fallback={<SkeletonRows rows={10} />}>
              <Editor text={current} problems={checked.problems} schema={null} onChange={setEdited} onSave={compare} />
            </Suspense>
          )}
          {edited !== null && edited !== text.data?.text && <Button small variant="quiet" onClick={() => setEdited(null)}>Discard changes</Button>}
        </section>
        <section className="card what-if-report stack" aria-label="Report">
          {busy && <SkeletonRows rows={6} />}
          {error !== undefined && !busy && <ErrorNotice error={error} onRetry={compare} />}
          {problem !== undefined && !busy && <p className="notice error" role="alert">The text has problems: line {problem.line}: {problem.message}</p>}
          {data === undefined && !busy && error === undefined && (
            <EmptyState title="Edit the text, then compare">
              The recorded calls of this execution answer the calls of the text. No call is made, and nothing is stored.
            </EmptyState>
          )}
          {item !== undefined && !busy && (
            <div className={asked === current ? "stack" : "stack stale"}>
              {asked !== current && <p className="notice waiting">The text has changed since then.</p>}
              <WhatIfView item={item} />
            </div>
          )}
        </section>
      </div>
    </div>
  );
}
