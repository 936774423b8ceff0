import { useState } from "react";
import { command } from "../../api/commands";
import { Button } from "../../design/Button";
import { Dialog } from "../../design/Dialog";
import { TextField } from "../../design/Field";

interface CancelProps {
  id: string;
  path: string;
  onClose: () => void;
}

/** Cancelling can not be undone, so it is asked once. */
export function CancelDialog({ id, path, onClose }: CancelProps) {
  const [reason, setReason] = useState("");
  const cancel = async () => {
    if (await command(id, "cancel", { reason })) onClose();
  };
  return (
    <Dialog
      title="Cancel this execution?"
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button look="danger" onClick={() => void cancel()}>Cancel the execution</Button>
        </>
      }
    >
      <div className="stack">
        <p>
          <b>{path}</b> begins nothing new; calls that run are waited for. What is done stays done.
        </p>
        <TextField label="Reason" hint="It goes on record." value={reason} onChange={(event) => setReason(event.target.value)} />
      </div>
    </Dialog>
  );
}
