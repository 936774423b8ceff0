import { useState } from "react";
import { get } from "../../api/client";
import type { components } from "../../api/schema";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { Badge } from "../../design/Badge";
import { Empty } from "../../design/Empty";
import { Failed } from "../../design/Failed";
import { SkeletonRows } from "../../design/Skeleton";
import { shortTime, wholeTime } from "../../design/times";
import { Diff } from "./Diff";
import { linkTo } from "./links";

type Page = components["schemas"]["PlaybookVersionsPage"];
type Version = components["schemas"]["PlaybookVersionItem"];
type Difference = components["schemas"]["PlaybookDiff"];

/** All versions of a path; two of them can be compared. */
export function Versions({ path, latest }: { path: string; latest: number }) {
  // A version that was just registered is read along: hence `latest` in the key.
  const versions = useResource<Page>(`versions ${path} ${latest}`, (signal) => get("/playbooks/versions", { path }, signal));
  if (versions.error !== undefined) return <Failed error={versions.error} onRetry={versions.reload} />;
  if (versions.data === undefined) return <SkeletonRows />;
  return <Compared path={path} versions={versions.data.items} />;
}

function Compared({ path, versions }: { path: string; versions: Version[] }) {
  const [from, setFrom] = useState(versions[1]?.version ?? versions[0]?.version ?? 1);
  const [to, setTo] = useState(versions[0]?.version ?? 1);
  const wanted = from === to ? null : `diff ${path} ${from} ${to}`;
  const diff = useResource<Difference>(wanted, (signal) => get("/playbooks/diff", { path, from, to }, signal));
  return (
    <div className="stack">
      <div className="table-scroll">
        <table className="table">
          <thead>
            <tr>
              <th scope="col">Version</th>
              <th scope="col">Registered</th>
              <th scope="col">From</th>
              <th scope="col">To</th>
            </tr>
          </thead>
          <tbody>
            {versions.map((each) => (
              <tr key={each.version}>
                <td>
                  <Link to={linkTo(path, each.version)}>{each.version}</Link>{" "}
                  {each.current && <Badge tone="ok">current</Badge>}
                </td>
                <td title={wholeTime(each.at)}>{shortTime(each.at)}</td>
                <td>
                  <input type="radio" name="from" aria-label={`Compare from version ${each.version}`} checked={from === each.version} onChange={() => setFrom(each.version)} />
                </td>
                <td>
                  <input type="radio" name="to" aria-label={`Compare to version ${each.version}`} checked={to === each.version} onChange={() => setTo(each.version)} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {versions.length === 1 && <Empty title="There is one version">Save a change, and here is what differs.</Empty>}
      {versions.length > 1 && from === to && <p className="soft">Choose two versions to compare.</p>}
      {diff.error !== undefined && <Failed error={diff.error} onRetry={diff.reload} />}
      {wanted !== null && diff.data === undefined && diff.error === undefined && <SkeletonRows />}
      {diff.data !== undefined && <Diff text={diff.data.diff} />}
    </div>
  );
}
