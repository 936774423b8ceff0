import { useState } from "react";
import { get, post } from "../../api/client";
import { errorMessage } from "../../api/problem";
import type { Rollback, VersionDiff } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Button } from "../../design/Button";
import { Dialog } from "../../design/Dialog";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { toast } from "../../design/toasts";
import { Diff } from "./Diff";

interface RollbackDialogProps {
  path: string;
  version: number;
  onClose: () => void;
  onDone: () => void;
}

interface Plan {
  rollback: Rollback;
  diff: string;
}

async function planOf(path: string, version: number): Promise<Plan> {
  const rollback = await post<Rollback>("/playbooks/rollback", { path, version, dry_run: true });
  const { diff } = await get<VersionDiff>("/playbooks/diff", { path, from: rollback.replaces, to: version });
  return { rollback, diff };
}

/** Shows what changes, and makes the older version current after a confirmation. */
export function RollbackDialog({ path, version, onClose, onDone }: RollbackDialogProps) {
  const plan = useResource<Plan>(`${path} ${String(version)}`, () => planOf(path, version));
  const [busy, setBusy] = useState(false);
  const confirm = async () => {
    setBusy(true);
    try {
      await post<Rollback>("/playbooks/rollback", { path, version });
      toast(`Version ${String(version)} of ${path} is current again`);
      onDone();
    } catch (error) {
      toast(errorMessage(error), "error");
      setBusy(false);
    }
  };
  const rollback = plan.data?.rollback;
  return (
    <Dialog
      title={`Roll back to version ${String(version)}?`}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Do nothing</Button>
          <Button variant="primary" disabled={rollback === undefined || busy} onClick={() => void confirm()}>Roll back</Button>
        </>
      }
    >
      <div className="stack">
        {plan.error !== undefined && <ErrorNotice error={plan.error} onRetry={plan.reload} />}
        {plan.data === undefined && plan.error === undefined && <SkeletonRows />}
        {rollback !== undefined && (
          <>
            <p>
              New executions of <b>{path}</b> use version {version} instead of version {rollback.replaces}. Running executions continue with their own version.
            </p>
            {rollback.triggers.length > 0 && <p>These triggers fire as version {version} declares them: {rollback.triggers.join(", ")}.</p>}
            {rollback.stopped.length > 0 && <p>These triggers no longer fire: {rollback.stopped.join(", ")}.</p>}
          </>
        )}
        {plan.data !== undefined && <div className="rollback-diff"><Diff text={plan.data.diff} /></div>}
      </div>
    </Dialog>
  );
}
