import type { WhatIfItem, WhatIfReport } from "../../api/types";
import { Link } from "../../app/router";
import { Badge } from "../../design/Badge";
import { sideBySide } from "./routes";
import "./trials.css";

const CHANGES: Record<WhatIfReport["changes"][number]["what"], string> = {
  changed: "its input or code differs; the recorded answer was used",
  missing: "it was not recorded",
  live: "it was made",
};

export function Verdict({ item }: { item: WhatIfItem }) {
  if (item.report == null) return <Badge tone="neutral">not compared</Badge>;
  return item.report.differs ? <Badge tone="waiting">differs</Badge> : <Badge tone="ok">the same</Badge>;
}

export const percent = ({ answered, of }: WhatIfReport["coverage"]): string => (of === 0 ? "100 %" : `${Math.floor((100 * answered) / of)} %`);

/** What would have been different in one execution. */
export function WhatIfView({ item }: { item: WhatIfItem }) {
  const { report, error } = item;
  if (report == null) return <p className="notice error" role="alert">{error}</p>;
  const { status, first_divergence: first, calls, coverage, changes, routes } = report;
  const { same = 0, changed = 0, missing = 0, unused = 0 } = calls;
  return (
    <div className="stack" role="status" aria-label="What would have been different">
      <p className="row wrap">
        <Verdict item={item} />
        {first === null
          ? <span>Routes, calls and output are those of the recorded execution.</span>
          : (
            <span>
              First divergence: {first.why}
              {first.seq > 0 && <> <Link to={`/executions/${item.execution_id}?at=${first.seq}`}>at event {first.seq.toLocaleString()}</Link></>}
            </span>
          )}
      </p>
      {report.error != null && <p className="notice error">It fails now: {report.error}</p>}
      <dl className="trial-facts">
        <dt>Status</dt>
        <dd>{status[0] === status[1] ? status[0] : `${status[0]} → ${status[1]}`}</dd>
        <dt>Output</dt>
        <dd>{report.output === "same" ? "the same" : "differs"}</dd>
        <dt>Calls</dt>
        <dd>
          {same.toLocaleString()} the same, {changed.toLocaleString()} with another input or code, {missing.toLocaleString()} not recorded
          {unused > 0 && `, ${unused.toLocaleString()} recorded but no longer made`}
        </dd>
        <dt>Coverage</dt>
        <dd>{coverage.answered.toLocaleString()} of {coverage.of.toLocaleString()} calls answered for the same input ({percent(coverage)})</dd>
      </dl>
      <Routes report={report} isSame={routes.same} />
      {changes.length > 0 && (
        <section>
          <h3 className="label">Calls that differ</h3>
          <table className="trial-table" aria-label="Calls that differ">
            <thead><tr><th scope="col">Call</th><th scope="col">Where</th><th scope="col">Why</th></tr></thead>
            <tbody>
              {changes.map((each) => (
                <tr key={`${each.frame} ${each.call} ${each.seq}`}>
                  <th scope="row"><code>{each.call}</code></th>
                  <td><code>{each.frame}</code></td>
                  <td>{CHANGES[each.what]}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {changed + missing > changes.length && <p className="faint">The first {changes.length} of {(changed + missing).toLocaleString()} calls.</p>}
        </section>
      )}
    </div>
  );
}

function Routes({ report, isSame }: { report: WhatIfReport; isSame: boolean }) {
  const rows = sideBySide(report.routes.recorded, report.routes.replayed);
  return (
    <section>
      <h3 className="label">Route{isSame && ": the same"}</h3>
      <div className="route-scroll" tabIndex={0} role="region" aria-label="Routes side by side">
        <table className="trial-table" aria-label="Routes">
          <thead><tr><th scope="col">Recorded</th><th scope="col">With this text</th></tr></thead>
          <tbody>
            {rows.map(({ left, right }, place) => (
              <tr key={place} className={left === right ? "" : "differs"}>
                <td>{left ?? <span className="faint">–</span>}</td>
                <td>{right ?? <span className="faint">–</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
