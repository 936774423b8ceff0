import { useState } from "react";
import { get } from "../../api/client";
import type { PlaybookVersion, VersionDiff, VersionsPage } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Link, navigate, useQueryParam } from "../../app/router";
import { useHasScope } from "../../app/session";
import { Badge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { shortTime, wholeTime } from "../../design/time";
import { Diff } from "./Diff";
import { RollbackDialog } from "./RollbackDialog";
import { playbookLink } from "./links";

/** All versions of a playbook, and the difference between two of them. */
export function Versions({ path, latest }: { path: string; latest: number }) {
  // `latest` is part of the key, so that a new version is loaded.
  const versions = useResource<VersionsPage>(`versions ${path} ${latest}`, (signal) => get("/playbooks/versions", { path }, signal));
  if (versions.error !== undefined) return <ErrorNotice error={versions.error} onRetry={versions.reload} />;
  if (versions.data === undefined) return <SkeletonRows />;
  return <VersionTable path={path} versions={versions.data.items} onChange={versions.reload} />;
}

function VersionTable({ path, versions, onChange }: { path: string; versions: PlaybookVersion[]; onChange: () => void }) {
  const [wantedVersion, setWantedVersion] = useState<number | null>(null);
  const [shown] = useQueryParam("version");
  const canWrite = useHasScope("write");
  const [from, setFrom] = useState(versions[1]?.version ?? versions[0]?.version ?? 1);
  const [to, setTo] = useState(versions[0]?.version ?? 1);
  const wanted = from === to ? null : `diff ${path} ${from} ${to}`;
  const diff = useResource<VersionDiff>(wanted, (signal) => get("/playbooks/diff", { path, from, to }, signal));
  return (
    <div className="stack">
      <div className="table-scroll" tabIndex={0} role="region" aria-label="Versions">
        <table className="table">
          <thead>
            <tr>
              <th scope="col">Version</th>
              <th scope="col">Registered</th>
              <th scope="col">From</th>
              <th scope="col">To</th>
              {canWrite && <th scope="col"><span className="visually-hidden">Actions</span></th>}
            </tr>
          </thead>
          <tbody>
            {versions.map((each) => (
              <tr key={each.version}>
                <td>
                  <Link to={playbookLink(path, each.version)}>{each.version}</Link>{" "}
                  {each.current && <Badge tone="ok">current</Badge>}
                </td>
                <td title={wholeTime(each.at)}>{shortTime(each.at)}</td>
                <td>
                  <input type="radio" name="from" aria-label={`Compare from version ${each.version}`} checked={from === each.version} onChange={() => setFrom(each.version)} />
                </td>
                <td>
                  <input type="radio" name="to" aria-label={`Compare to version ${each.version}`} checked={to === each.version} onChange={() => setTo(each.version)} />
                </td>
                {canWrite && (
                  <td>
                    {!each.current && (
                      <Button small onClick={() => setWantedVersion(each.version)} aria-label={`Roll back to version ${each.version}`}>Roll back…</Button>
                    )}
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {versions.length === 1 && <EmptyState title="Only one version">Save a change to compare versions.</EmptyState>}
      {versions.length > 1 && from === to && <p className="soft">Choose two versions to compare.</p>}
      {diff.error !== undefined && <ErrorNotice error={diff.error} onRetry={diff.reload} />}
      {wanted !== null && diff.data === undefined && diff.error === undefined && <SkeletonRows />}
      {diff.data !== undefined && <Diff text={diff.data.diff} />}
      {wantedVersion !== null && (
        <RollbackDialog
          path={path}
          version={wantedVersion}
          onClose={() => setWantedVersion(null)}
          onDone={() => {
            setWantedVersion(null);
            onChange();
            // A different address from the current one, so that the page loads the version again.
            navigate(`${playbookLink(path, shown === null ? wantedVersion : undefined)}&tab=versions`, { replace: true });
          }}
        />
      )}
    </div>
  );
}
