import { useState } from "react";
import { ask, get } from "../../api/client";
import { inWords } from "../../api/problem";
import type { components } from "../../api/schema";
import { useResource } from "../../api/useResource";
import { useMay } from "../../app/session";
import { Button } from "../../design/Button";
import { Dialog } from "../../design/Dialog";
import { Empty } from "../../design/Empty";
import { Failed } from "../../design/Failed";
import { SkeletonRows } from "../../design/Skeleton";
import { shortTime, wholeTime } from "../../design/times";
import { toast } from "../../design/toasts";
import { SetCredential } from "./SetCredential";
import "./credentials.css";

type Credentials = components["schemas"]["CredentialList"];

export default function CredentialsPage() {
  const kept = useResource<Credentials>("/credentials", (signal) => get("/credentials", {}, signal));
  const mayWrite = useMay("write");
  const [setting, setSetting] = useState<string | null>(null); // the name, "" is a new one
  const [removing, setRemoving] = useState<string | null>(null);
  const remove = async (name: string) => {
    setRemoving(null);
    try {
      await ask(`/credentials/${encodeURIComponent(name)}`, { method: "DELETE" });
      toast(`${name} is removed`);
    } catch (error) {
      toast(inWords(error), "error");
    }
    kept.reload();
  };
  return (
    <div className="page">
      <div className="page-head">
        <h1>Credentials</h1>
        <span className="soft credentials-says">Encrypted. Values are written here and never shown again.</span>
        {mayWrite && <Button look="primary" onClick={() => setSetting("")}>Set a credential</Button>}
      </div>
      {kept.error !== undefined && <Failed error={kept.error} onRetry={kept.reload} />}
      {kept.data === undefined && kept.error === undefined && <SkeletonRows />}
      {kept.data?.items.length === 0 && (
        <div className="card">
          <Empty title="No credentials are stored" command="noetl secrets set NAME">
            Set one here or on the command line. Playbooks name it in <code>keychain</code>, tasks use it by <code>auth</code>.
          </Empty>
        </div>
      )}
      {kept.data !== undefined && kept.data.items.length > 0 && (
        <div className="card table-scroll">
          <table className="table credentials">
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Version</th>
                <th scope="col" className="wide">Set</th>
                <th scope="col"><span className="visually-hidden">What to do</span></th>
              </tr>
            </thead>
            <tbody>
              {kept.data.items.map((each) => (
                <tr key={each.name}>
                  <td className="mono">{each.name}</td>
                  <td className="numbers">{each.version}</td>
                  <td className="wide" title={wholeTime(each.at)}>{shortTime(each.at)}</td>
                  <td>
                    {mayWrite && (
                      <div className="row" style={{ justifyContent: "flex-end" }}>
                        <Button small onClick={() => setSetting(each.name)} aria-label={`Replace ${each.name}`}>Replace</Button>
                        <Button small look="danger" onClick={() => setRemoving(each.name)} aria-label={`Remove ${each.name}`}>Remove</Button>
                      </div>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {setting !== null && (
        <SetCredential name={setting} onClose={() => setSetting(null)} onDone={kept.reload} />
      )}
      {removing !== null && (
        <Dialog
          title={`Remove ${removing}?`}
          onClose={() => setRemoving(null)}
          foot={
            <>
              <Button onClick={() => setRemoving(null)}>Keep it</Button>
              <Button look="danger" onClick={() => void remove(removing)}>Remove it</Button>
            </>
          }
        >
          Tasks that use it fail from now on. It can not be brought back.
        </Dialog>
      )}
    </div>
  );
}
