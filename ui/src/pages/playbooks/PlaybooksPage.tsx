import { useDeferredValue, useState } from "react";
import { request, get } from "../../api/client";
import { isInterrupted } from "../../api/commands";
import { errorMessage } from "../../api/problem";
import type { PlaybookOverview, PlaybookVersion, VersionsPage } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Link, useQueryParam } from "../../app/router";
import { useHasScope } from "../../app/session";
import { Badge, StatusBadge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { Dialog } from "../../design/Dialog";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { shortTime, wholeTime } from "../../design/time";
import { toast } from "../../design/toasts";
import { NewPlaybook } from "./NewPlaybook";
import { groupByFolder } from "./folders";
import { Labels } from "../executions/Labels";
import { historyLink, playbookLink } from "./links";
import "./playbooks.css";
import { useOverviews } from "./useOverviews";

const PAGE = 1000;
const PAGES_MAX = 10; // the page loads and searches at most 10 × 1000 playbooks
const ROWS = 200;

async function catalog(archived: boolean, signal: AbortSignal): Promise<PlaybookVersion[]> {
  const found: PlaybookVersion[] = [];
  let after: string | null = null;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const next: VersionsPage = await get<VersionsPage>("/playbooks", { after, archived, limit: PAGE }, signal);
    found.push(...next.items);
    after = next.next ?? null;
    if (after === null) break;
  }
  return found;
}

export default function PlaybooksPage() {
  const [search, setSearch] = useQueryParam("q");
  const [archived, setArchived] = useQueryParam("archived");
  const [creating, setCreating] = useState(false);
  const canWrite = useHasScope("write");
  const known = useResource(`catalog ${archived ?? ""}`, (signal) => catalog(archived === "1", signal));
  const query = useDeferredValue(search ?? "").trim().toLowerCase();
  const found = known.data?.filter((each) => each.path.toLowerCase().includes(query));
  return (
    <div className="page">
      <div className="page-head">
        <h1>Playbooks</h1>
        <input
          className="input playbook-search"
          type="search"
          aria-label="Find a playbook by its path"
          placeholder="Find by path"
          value={search ?? ""}
          onChange={(event) => setSearch(event.target.value)}
        />
        <label className="row grow">
          <input type="checkbox" checked={archived === "1"} onChange={(event) => setArchived(event.target.checked ? "1" : null)} />
          Include archived
        </label>
        {canWrite && <Button variant="primary" onClick={() => setCreating(true)}>New playbook</Button>}
      </div>
      {known.error !== undefined && <ErrorNotice error={known.error} onRetry={known.reload} />}
      {found === undefined && known.error === undefined && <SkeletonRows />}
      {found !== undefined && found.length > 0 && <Catalog playbooks={found} canWrite={canWrite} onChange={known.reload} />}
      {found?.length === 0 && (
        <div className="card">
          {query === "" ? (
            <EmptyState
              title="No playbooks yet"
              command="noetl register hello.yaml"
              action={canWrite && <Button variant="primary" onClick={() => setCreating(true)}>New playbook</Button>}
            >
              Write the first playbook here, or register a file.
            </EmptyState>
          ) : (
            <EmptyState title={`No playbook path contains “${query}”`} />
          )}
        </div>
      )}
      {creating && <NewPlaybook onClose={() => setCreating(false)} />}
    </div>
  );
}

interface CatalogProps {
  playbooks: PlaybookVersion[];
  canWrite: boolean;
  onChange: () => void;
}

function Catalog({ playbooks, canWrite, onChange }: CatalogProps) {
  const [rows, setRows] = useState(ROWS);
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const shown = playbooks.slice(0, rows);
  const overviews = useOverviews(shown.map((each) => each.path));
  const toggle = (folder: string) =>
    setClosed((before) => {
      const now = new Set(before);
      if (!now.delete(folder)) now.add(folder);
      return now;
    });
  const [archiving, setArchiving] = useState<string | null>(null);
  const archive = async (path: string) => {
    setArchiving(null);
    try {
      await request("/playbooks/archive", { method: "POST", query: { path } });
      toast(`Archived ${path}`);
    } catch (error) {
      toast(errorMessage(error), "error");
    }
    onChange();
  };
  return (
    <div className="card table-scroll" tabIndex={0} role="region" aria-label="Playbooks">
      <table className="table catalog">
        <thead>
          <tr>
            <th scope="col">Path</th>
            <th scope="col">Last execution</th>
            <th scope="col" className="wide">Next</th>
            <th scope="col" className="wide">Version</th>
            <th scope="col"><span className="visually-hidden">Actions</span></th>
          </tr>
        </thead>
        {groupByFolder(shown).map(({ name, items }) => (
          <tbody key={name}>
            {name !== "" && (
              <tr className="folder">
                <th scope="rowgroup" colSpan={5}>
                  <button type="button" aria-expanded={!closed.has(name)} onClick={() => toggle(name)}>{name}/ <span className="faint numbers">{items.length}</span></button>
                </th>
              </tr>
            )}
            {!closed.has(name) && items.map((each) => (
              <CatalogRow key={each.path} playbook={each} overview={overviews.data?.get(each.path)} onArchive={canWrite && !each.archived ? setArchiving : undefined} />
            ))}
          </tbody>
        ))}
      </table>
      {playbooks.length > rows && (
        <div className="row more">
          <Button onClick={() => setRows(rows + ROWS)}>Show more ({(playbooks.length - rows).toLocaleString()} left)</Button>
        </div>
      )}
      {archiving !== null && (
        <Dialog
          title={`Archive ${archiving}?`}
          onClose={() => setArchiving(null)}
          footer={
            <>
              <Button onClick={() => setArchiving(null)}>Keep it</Button>
              <Button variant="danger" onClick={() => void archive(archiving)}>Archive it</Button>
            </>
          }
        >
          An archived playbook cannot be started. Running executions continue. Registering a new version restores it.
        </Dialog>
      )}
    </div>
  );
}

interface RowProps {
  playbook: PlaybookVersion;
  overview: PlaybookOverview | undefined; // undefined: not loaded yet
  onArchive: ((path: string) => void) | undefined; // undefined: it cannot be archived
}

function CatalogRow({ playbook, overview, onArchive }: RowProps) {
  const { path, version, at, archived } = playbook;
  const last = overview?.last ?? null;
  const next = overview?.next_at ?? null;
  return (
    <tr>
      <td>
        <Link to={playbookLink(path)} className="path">{path}</Link> {archived && <Badge>archived</Badge>}
        {overview !== undefined && (overview.description !== "" || Object.keys(overview.labels).length > 0 || overview.credentials.length > 0) && (
          <div className="catalog-note soft">
            {overview.description}
            <Labels labels={overview.labels} most={10} />
            {overview.credentials.length > 0 && <span className="faint">uses {overview.credentials.join(", ")}</span>}
          </div>
        )}
      </td>
      <td>
        {last === null ? <span className="faint">{overview === undefined ? "" : "never"}</span> : (
          <Link className="catalog-last" to={`/executions/${last.execution_id}`} title={wholeTime(last.started_at)}>
            <StatusBadge status={isInterrupted(last) ? "interrupted" : last.status} /> <span className="wide">{shortTime(last.started_at)}</span>
          </Link>
        )}
      </td>
      <td className="wide numbers">{next === null ? "" : <Link to="/triggers" title={wholeTime(next)}>{shortTime(next)}</Link>}</td>
      <td className="wide numbers" title={wholeTime(at)}>{version}</td>
      <td>
        <div className="row" style={{ justifyContent: "flex-end" }}>
          <Link className="button small quiet wide" to={historyLink(path)} aria-label={`History of ${path}`}>History</Link>
          <Link className="button small" to={`${playbookLink(path)}&tab=run`} aria-label={`Run ${path}`}>Run</Link>
          {onArchive !== undefined && (
            <Button small variant="quiet" className="wide" onClick={() => onArchive(path)} aria-label={`Archive ${path}`}>Archive</Button>
          )}
        </div>
      </td>
    </tr>
  );
}
