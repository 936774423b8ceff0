import { useDeferredValue, useState } from "react";
import { ask, get } from "../../api/client";
import { inWords } from "../../api/problem";
import type { components } from "../../api/schema";
import { useResource } from "../../api/useResource";
import { Link, useQuery } from "../../app/router";
import { useMay } from "../../app/session";
import { Badge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { Dialog } from "../../design/Dialog";
import { Empty } from "../../design/Empty";
import { Failed } from "../../design/Failed";
import { SkeletonRows } from "../../design/Skeleton";
import { shortTime, wholeTime } from "../../design/times";
import { toast } from "../../design/toasts";
import { NewPlaybook } from "./NewPlaybook";
import { linkTo } from "./links";
import "./playbooks.css";

type Version = components["schemas"]["PlaybookVersionItem"];
type Page = components["schemas"]["PlaybookVersionsPage"];

const PAGE = 1000;
const PAGES_MAX = 10; // so many playbooks are searched here; who has more knows their paths
const ROWS = 200;

async function catalog(archived: boolean, signal: AbortSignal): Promise<Version[]> {
  const found: Version[] = [];
  let after: string | null = null;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const next: Page = await get<Page>("/playbooks", { after, archived, limit: PAGE }, signal);
    found.push(...next.items);
    after = next.next ?? null;
    if (after === null) break;
  }
  return found;
}

export default function PlaybooksPage() {
  const [sought, setSought] = useQuery("q");
  const [archived, setArchived] = useQuery("archived");
  const [making, setMaking] = useState(false);
  const mayWrite = useMay("write");
  const known = useResource(`catalog ${archived ?? ""}`, (signal) => catalog(archived === "1", signal));
  const words = useDeferredValue(sought ?? "").trim().toLowerCase();
  const found = known.data?.filter((each) => each.path.toLowerCase().includes(words));
  return (
    <div className="page">
      <div className="page-head">
        <h1>Playbooks</h1>
        <input
          className="input playbook-search"
          type="search"
          aria-label="Find a playbook by its path"
          placeholder="Find by path"
          value={sought ?? ""}
          onChange={(event) => setSought(event.target.value)}
        />
        <label className="row grow">
          <input type="checkbox" checked={archived === "1"} onChange={(event) => setArchived(event.target.checked ? "1" : null)} />
          Archived ones too
        </label>
        {mayWrite && <Button look="primary" onClick={() => setMaking(true)}>New playbook</Button>}
      </div>
      {known.error !== undefined && <Failed error={known.error} onRetry={known.reload} />}
      {found === undefined && known.error === undefined && <SkeletonRows />}
      {found !== undefined && found.length > 0 && <Catalog playbooks={found} mayWrite={mayWrite} onChange={known.reload} />}
      {found?.length === 0 && (
        <div className="card">
          {words === "" ? (
            <Empty
              title="The catalog is empty"
              command="noetl register hello.yaml"
              action={mayWrite && <Button look="primary" onClick={() => setMaking(true)}>New playbook</Button>}
            >
              Write the first playbook here, or register a file.
            </Empty>
          ) : (
            <Empty title={`No path has “${words}” in it`} />
          )}
        </div>
      )}
      {making && <NewPlaybook onClose={() => setMaking(false)} />}
    </div>
  );
}

interface CatalogProps {
  playbooks: Version[];
  mayWrite: boolean;
  onChange: () => void;
}

function Catalog({ playbooks, mayWrite, onChange }: CatalogProps) {
  const [rows, setRows] = useState(ROWS);
  const [archiving, setArchiving] = useState<string | null>(null);
  const archive = async (path: string) => {
    setArchiving(null);
    try {
      await ask("/playbooks/archive", { method: "POST", query: { path } });
      toast(`${path} is archived`);
    } catch (error) {
      toast(inWords(error), "error");
    }
    onChange();
  };
  return (
    <div className="card table-scroll">
      <table className="table catalog">
        <thead>
          <tr>
            <th scope="col">Path</th>
            <th scope="col">Version</th>
            <th scope="col" className="wide">Registered</th>
            <th scope="col"><span className="visually-hidden">What to do</span></th>
          </tr>
        </thead>
        <tbody>
          {playbooks.slice(0, rows).map((each) => (
            <tr key={each.path}>
              <td>
                <Link to={linkTo(each.path)} className="path">{each.path}</Link>{" "}
                {each.archived && <Badge>archived</Badge>}
              </td>
              <td className="numbers">{each.version}</td>
              <td className="wide" title={wholeTime(each.at)}>{shortTime(each.at)}</td>
              <td>
                <div className="row" style={{ justifyContent: "flex-end" }}>
                  <Link className="button small" to={`${linkTo(each.path)}&tab=run`} aria-label={`Run ${each.path}`}>Run</Link>
                  {mayWrite && !each.archived && (
                    <Button small look="quiet" className="wide" onClick={() => setArchiving(each.path)} aria-label={`Archive ${each.path}`}>Archive</Button>
                  )}
                </div>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {playbooks.length > rows && (
        <div className="row more">
          <Button onClick={() => setRows(rows + ROWS)}>Show more: {(playbooks.length - rows).toLocaleString()} are left</Button>
        </div>
      )}
      {archiving !== null && (
        <Dialog
          title={`Archive ${archiving}?`}
          onClose={() => setArchiving(null)}
          foot={
            <>
              <Button onClick={() => setArchiving(null)}>Keep it</Button>
              <Button look="danger" onClick={() => void archive(archiving)}>Archive it</Button>
            </>
          }
        >
          Nothing new starts from it. What runs goes on, and to register a version opens it again.
        </Dialog>
      )}
    </div>
  );
}
