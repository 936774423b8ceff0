import { useState } from "react";
import { post } from "../../api/client";
import type { WhatIfItem, WhatIfResponse } from "../../api/types";
import { Link } from "../../app/router";
import { Button } from "../../design/Button";
import { ErrorNotice } from "../../design/ErrorNotice";
import { Skeleton } from "../../design/Skeleton";
import { Verdict, WhatIfView, percent } from "./WhatIfView";
import { useAction } from "./useAction";

const LAST = [5, 10, 20, 50];

/** What the text of the editor would have done in the last executions of its playbook. */
export function WhatIfPane({ path, text }: { path: string; text: string }) {
  const [last, setLast] = useState(10);
  const [opened, setOpened] = useState<string | null>(null);
  const [asked, setAsked] = useState<string | null>(null); // the text that was compared
  const { data, error, busy, run } = useAction<WhatIfResponse>();
  const compare = () => {
    setAsked(text);
    setOpened(null);
    run(() => post("/playbooks/what-if", { text, path, last }));
  };
  return (
    <div className="stack">
      <p className="soft">
        Runs this text over the recorded calls of the last executions. No call is made, and nothing is stored: what differs shows what the change does.
      </p>
      <div className="row wrap">
        <label className="row">
          Last
          <select className="input" value={last} onChange={(event) => setLast(Number(event.target.value))}>
            {LAST.map((each) => <option key={each} value={each}>{each}</option>)}
          </select>
          executions
        </label>
        <Button variant="primary" disabled={busy} onClick={compare}>{busy ? "Comparing…" : "Compare"}</Button>
      </div>
      {busy && <Skeleton height={120} />}
      {error !== undefined && <ErrorNotice error={error} onRetry={compare} />}
      {data !== undefined && !busy && (
        <div className={asked === text ? "stack" : "stack stale"}>
          {asked !== text && <p className="notice waiting">The text has changed since then.</p>}
          <Report response={data} opened={opened} onOpen={setOpened} />
        </div>
      )}
    </div>
  );
}

interface ReportProps {
  response: WhatIfResponse;
  opened: string | null;
  onOpen: (id: string | null) => void;
}

function Report({ response, opened, onOpen }: ReportProps) {
  const { items, left = 0, problems = [] } = response;
  if (problems.length > 0) return <p className="notice error" role="alert">The text has problems: {problems[0]?.message}</p>;
  const shown = items.find((each) => each.execution_id === opened);
  const differing = items.filter((each) => each.report?.differs === true).length;
  return (
    <>
      <p role="status">
        {differing === 0 ? `None of ${items.length} executions would differ.` : `${differing} of ${items.length} executions would differ.`}
        {left > 0 && ` ${left} more were left out: the time was too short.`}
      </p>
      <div className="table-scroll" tabIndex={0} role="region" aria-label="Compared executions">
        <table className="table">
          <thead>
            <tr>
              <th scope="col">Execution</th>
              <th scope="col">Result</th>
              <th scope="col">Coverage</th>
              <th scope="col">First divergence</th>
            </tr>
          </thead>
          <tbody>{items.map((each) => <Row key={each.execution_id} item={each} isOpen={opened === each.execution_id} onOpen={onOpen} />)}</tbody>
        </table>
      </div>
      {shown !== undefined && (
        <section className="card what-if-report" aria-label={`Details of ${shown.execution_id.slice(-12)}`}><WhatIfView item={shown} /></section>
      )}
    </>
  );
}

function Row({ item, isOpen, onOpen }: { item: WhatIfItem; isOpen: boolean; onOpen: (id: string | null) => void }) {
  const { execution_id: id, report, error } = item;
  return (
    <tr>
      <td><Link to={`/executions/${id}`} className="mono">{id.slice(-12)}</Link></td>
      <td><Verdict item={item} /></td>
      <td className="numbers">{report == null ? "–" : percent(report.coverage)}</td>
      <td>
        <span className="soft">{report?.first_divergence?.why ?? error ?? ""}</span>{" "}
        {report != null && (
          <Button small variant="quiet" aria-expanded={isOpen} aria-label={`${isOpen ? "Close details" : "Details"} of ${id.slice(-12)}`} onClick={() => onOpen(isOpen ? null : id)}>
            {isOpen ? "Close details" : "Details"}
          </Button>
        )}
      </td>
    </tr>
  );
}
