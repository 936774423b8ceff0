import { useState } from "react";
import { sendCommand } from "../../api/commands";
import { Button } from "../../design/Button";
import { Dialog } from "../../design/Dialog";
import { TextField } from "../../design/Field";

interface CancelProps {
  id: string;
  path: string;
  onClose: () => void;
}

/** Asks for confirmation, because a cancellation cannot be undone. */
export function CancelDialog({ id, path, onClose }: CancelProps) {
  const [reason, setReason] = useState("");
  const [compensate, setCompensate] = useState(false);
  const cancel = async () => {
    if (await sendCommand(id, "cancel", { reason, compensate })) onClose();
  };
  return (
    <Dialog
      title="Cancel this execution?"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep running</Button>
          <Button variant="danger" onClick={() => void cancel()}>Cancel the execution</Button>
        </>
      }
    >
      <div className="stack">
        <p>
          <b>{path}</b> starts no new step and waits for running calls to finish.
          {compensate ? " Then completed steps with compensate are undone, the last one first." : " Completed steps are not undone."}
        </p>
        <label className="row">
          <input type="checkbox" checked={compensate} onChange={(event) => setCompensate(event.target.checked)} />
          Undo completed steps that have <code>compensate</code>
        </label>
        <TextField label="Reason" hint="Written to the log." value={reason} onChange={(event) => setReason(event.target.value)} />
      </div>
    </Dialog>
  );
}
