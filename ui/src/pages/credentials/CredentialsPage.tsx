import { useState } from "react";
import { request, get } from "../../api/client";
import { errorMessage } from "../../api/problem";
import type { CredentialList } from "../../api/types";
import { useResource } from "../../api/useResource";
import { useHasScope } from "../../app/session";
import { Button } from "../../design/Button";
import { Dialog } from "../../design/Dialog";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { shortTime, wholeTime } from "../../design/time";
import { toast } from "../../design/toasts";
import { SetCredential } from "./SetCredential";
import { UsedBy } from "./UsedBy";
import "./credentials.css";

export default function CredentialsPage() {
  const stored = useResource<CredentialList>("/credentials", (signal) => get("/credentials", {}, signal));
  const canWrite = useHasScope("write");
  const [editing, setEditing] = useState<string | null>(null); // a name; "": a new credential
  const [used, setUsed] = useState<string | null>(null);
  const [removing, setRemoving] = useState<string | null>(null);
  const remove = async (name: string) => {
    setRemoving(null);
    try {
      await request(`/credentials/${encodeURIComponent(name)}`, { method: "DELETE" });
      toast(`Removed ${name}`);
    } catch (error) {
      toast(errorMessage(error), "error");
    }
    stored.reload();
  };
  return (
    <div className="page">
      <div className="page-head">
        <h1>Credentials</h1>
        <span className="soft credentials-note">Values are stored encrypted and are never shown again.</span>
        {canWrite && <Button variant="primary" onClick={() => setEditing("")}>Set a credential</Button>}
      </div>
      {stored.error !== undefined && <ErrorNotice error={stored.error} onRetry={stored.reload} />}
      {stored.data === undefined && stored.error === undefined && <SkeletonRows />}
      {stored.data?.items.length === 0 && (
        <div className="card">
          <EmptyState title="No credentials are stored" command="noetl secrets set NAME">
            Set one here or on the command line. A playbook lists it in <code>keychain</code>; a task uses it with <code>auth</code>.
          </EmptyState>
        </div>
      )}
      {stored.data !== undefined && stored.data.items.length > 0 && (
        <div className="card table-scroll" tabIndex={0} role="region" aria-label="Credentials">
          <table className="table credentials">
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Version</th>
                <th scope="col" className="wide">Set</th>
                <th scope="col"><span className="visually-hidden">Actions</span></th>
              </tr>
            </thead>
            <tbody>
              {stored.data.items.map((each) => (
                <tr key={each.name}>
                  <td className="mono">{each.name}</td>
                  <td className="numbers">{each.version}</td>
                  <td className="wide" title={wholeTime(each.at)}>{shortTime(each.at)}</td>
                  <td>
                    {canWrite && (
                      <div className="row" style={{ justifyContent: "flex-end" }}>
                        <Button small variant="quiet" onClick={() => setUsed(each.name)} aria-label={`Used by… ${each.name}`}>Used by…</Button>
                        <Button small onClick={() => setEditing(each.name)} aria-label={`Replace ${each.name}`}>Replace</Button>
                        <Button small variant="danger" onClick={() => setRemoving(each.name)} aria-label={`Remove ${each.name}`}>Remove</Button>
                      </div>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {editing !== null && (
        <SetCredential name={editing} onClose={() => setEditing(null)} onDone={stored.reload} />
      )}
      {used !== null && <UsedBy name={used} onClose={() => setUsed(null)} />}
      {removing !== null && (
        <Dialog
          title={`Remove ${removing}?`}
          onClose={() => setRemoving(null)}
          footer={
            <>
              <Button onClick={() => setRemoving(null)}>Keep it</Button>
              <Button variant="danger" onClick={() => void remove(removing)}>Remove it</Button>
            </>
          }
        >
          Tasks that use this credential will fail. You cannot undo this.
        </Dialog>
      )}
    </div>
  );
}
