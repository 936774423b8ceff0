import { type SyntheticEvent, useId, useState } from "react";
import { get, request } from "../../api/client";
import { errorMessage } from "../../api/problem";
import type { SavedList, SavedValue, VersionsPage } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Link, useQueryParam } from "../../app/router";
import { useHasScope } from "../../app/session";
import { Button } from "../../design/Button";
import { Dialog } from "../../design/Dialog";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { TextField } from "../../design/Field";
import { SkeletonRows } from "../../design/Skeleton";
import { shortTime, wholeTime } from "../../design/time";
import { toast } from "../../design/toasts";
import "../triggers/triggers.css";

function By({ value }: { value: SavedValue }) {
  if (value.execution_id === null) return <>{value.by ?? ""}</>;
  return <Link className="mono" to={`/executions/${value.execution_id}`}>{value.execution_id.slice(-12)}</Link>;
}

function History({ path, saved, onClose }: { path: string; saved: string; onClose: () => void }) {
  const { data, error } = useResource<SavedList>(`${path} ${saved}`, (signal) => get("/saved/history", { path, key: saved }, signal));
  return (
    <Dialog title={`History of saved.${saved}`} onClose={onClose}>
      {error !== undefined && <ErrorNotice error={error} />}
      {data === undefined && error === undefined && <SkeletonRows rows={3} />}
      <table className="table">
        <tbody>
          {data?.items.map((each) => (
            <tr key={each.at}>
              <td title={wholeTime(each.at)}>{shortTime(each.at)}</td>
              <td className="saved-value">{each.removed === true ? <span className="soft">removed</span> : <code>{JSON.stringify(each.value)}</code>}</td>
              <td><By value={each} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  );
}

interface EditProps {
  path: string;
  value: SavedValue | null; // null: a new one
  onClose: () => void;
  onDone: () => void;
}

function Edit({ path, value, onClose, onDone }: EditProps) {
  const [key, setKey] = useState(value?.key ?? "");
  const [text, setText] = useState(value === null ? "" : JSON.stringify(value.value));
  const [wrong, setWrong] = useState<string>();
  const form = useId();
  const store = async (event: SyntheticEvent) => {
    event.preventDefault();
    let parsed: unknown;
    try {
      parsed = JSON.parse(text);
    } catch {
      setWrong('Enter JSON: "text", 42, true, null, [..] or {..}');
      return;
    }
    try {
      await request("/saved", { method: "PUT", query: { path, key: key.trim() }, body: { value: parsed } });
      toast(`Set saved.${key.trim()}`);
      onDone();
      onClose();
    } catch (error) {
      setWrong(errorMessage(error));
    }
  };
  return (
    <Dialog
      title={value === null ? "Set a value" : `Change saved.${value.key}`}
      onClose={onClose}
      footer={<><Button onClick={onClose}>Cancel</Button><Button variant="primary" type="submit" form={form} disabled={key.trim() === "" || text === ""}>Store it</Button></>}
    >
      <form id={form} className="stack" onSubmit={(event) => void store(event)}>
        <TextField label="Key" value={key} readOnly={value !== null} autoFocus={value === null} hint="Playbooks read it as saved.KEY" onChange={(event) => setKey(event.target.value)} />
        <TextField label="Value" value={text} autoFocus={value !== null} wrong={wrong} hint="JSON. Executions that start later read it." onChange={(event) => setText(event.target.value)} />
      </form>
    </Dialog>
  );
}

/** The values of `saved.*` of one playbook. `?path=` names it. */
function Values({ path }: { path: string }) {
  const { data, error, reload } = useResource<SavedList>(`saved ${path}`, (signal) => get("/saved", { path }, signal));
  const canRun = useHasScope("run");
  const [editing, setEditing] = useState<SavedValue | "new" | null>(null);
  const [history, setHistory] = useState<string | null>(null);
  const remove = async (key: string) => {
    try {
      await request("/saved", { method: "DELETE", query: { path, key } });
      toast(`Removed saved.${key}; its history is kept`);
    } catch (problem) {
      toast(errorMessage(problem), "error");
    }
    reload();
  };
  if (error !== undefined) return <ErrorNotice error={error} onRetry={reload} />;
  if (data === undefined) return <SkeletonRows />;
  return (
    <>
      <div className="card table-scroll saved-values" tabIndex={0} role="region" aria-label="Saved values">
        {data.items.length === 0 && <EmptyState title={`${path} has no saved values`}>Steps set them with <code>saved.KEY</code> in <code>set</code>.</EmptyState>}
        {data.items.length > 0 && (
          <table className="table">
            <thead><tr><th scope="col">Key</th><th scope="col">Value</th><th scope="col" className="wide">Set</th><th scope="col" className="wide">By</th><th scope="col"><span className="visually-hidden">Actions</span></th></tr></thead>
            <tbody>
              {data.items.map((each) => (
                <tr key={each.key}>
                  <td className="mono">{each.key}</td>
                  <td className="saved-value"><code>{JSON.stringify(each.value)}</code></td>
                  <td className="wide" title={wholeTime(each.at)}>{shortTime(each.at)}</td>
                  <td className="wide"><By value={each} /></td>
                  <td>
                    <div className="row wrap">
                      <Button small variant="quiet" aria-label={`History of ${each.key}`} onClick={() => setHistory(each.key)}>History</Button>
                      {canRun && <Button small aria-label={`Change ${each.key}`} onClick={() => setEditing(each)}>Change</Button>}
                      {canRun && <Button small variant="danger" aria-label={`Remove ${each.key}`} onClick={() => void remove(each.key)}>Remove</Button>}
                    </div>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
      {canRun && <div className="row"><Button onClick={() => setEditing("new")}>Set a value</Button></div>}
      {editing !== null && <Edit path={path} value={editing === "new" ? null : editing} onClose={() => setEditing(null)} onDone={reload} />}
      {history !== null && <History path={path} saved={history} onClose={() => setHistory(null)} />}
    </>
  );
}

export default function SavedPage() {
  const [path, setPath] = useQueryParam("path");
  const { data: playbooks, error, reload } = useResource<VersionsPage>("saved playbooks", (signal) => get("/playbooks", { limit: 1000 }, signal));
  const paths = playbooks?.items.map((each) => each.path) ?? [];
  return (
    <div className="page stack">
      <div className="page-head">
        <h1>Saved values</h1>
        <select className="input run-choice" aria-label="Playbook" value={path ?? ""} onChange={(event) => setPath(event.target.value || null)}>
          <option value="">Choose a playbook</option>
          {path !== null && !paths.includes(path) && <option value={path}>{path}</option>}
          {paths.map((each) => <option key={each} value={each}>{each}</option>)}
        </select>
      </div>
      {error !== undefined && <ErrorNotice error={error} onRetry={reload} />}
      {path === null ? <div className="card"><EmptyState title="Choose a playbook">Saved values outlive executions: each playbook has its own.</EmptyState></div> : <Values key={path} path={path} />}
    </div>
  );
}
