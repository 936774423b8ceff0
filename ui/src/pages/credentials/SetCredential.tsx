import { type SyntheticEvent, useId, useState } from "react";
import { request } from "../../api/client";
import { errorMessage } from "../../api/problem";
import type { StoredCredential } from "../../api/types";
import { Button } from "../../design/Button";
import { Dialog } from "../../design/Dialog";
import { TextField } from "../../design/Field";
import { toast } from "../../design/toasts";

interface SetCredentialProps {
  name: string; // "": a new credential
  onClose: () => void;
  onDone: () => void;
}

/** The page sends the value to the server and does not keep it. */
export function SetCredential({ name: initialName, onClose, onDone }: SetCredentialProps) {
  const [name, setName] = useState(initialName);
  const [value, setValue] = useState("");
  const [shown, setShown] = useState(false);
  const [wrong, setWrong] = useState<string>();
  const [sending, setSending] = useState(false);
  const form = useId();
  const send = async (event: SyntheticEvent) => {
    event.preventDefault();
    setSending(true);
    try {
      const path = `/credentials/${encodeURIComponent(name.trim())}`;
      const stored = await request<StoredCredential>(path, { method: "PUT", body: { value } });
      toast(`Stored ${stored.name}, version ${stored.version}`);
      onDone();
      onClose();
    } catch (error) {
      setWrong(errorMessage(error));
      setSending(false);
    }
  };
  return (
    <Dialog
      title={initialName === "" ? "Set a credential" : `Replace ${initialName}`}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" type="submit" form={form} disabled={sending || name.trim() === "" || value === ""}>Store it</Button>
        </>
      }
    >
      <form id={form} className="stack" onSubmit={(event) => void send(event)}>
        <TextField
          label="Name"
          value={name}
          readOnly={initialName !== ""}
          autoFocus={initialName === ""}
          placeholder="db/main"
          autoComplete="off"
          hint="Playbooks refer to it by this name: keychain: [{name: db, kind: stored, key: db/main}]"
          onChange={(event) => setName(event.target.value)}
        />
        <TextField
          label="Value"
          type={shown ? "text" : "password"}
          value={value}
          autoFocus={initialName !== ""}
          autoComplete="new-password"
          wrong={wrong}
          hint="Plain text, or JSON for a credential with several fields"
          onChange={(event) => setValue(event.target.value)}
        />
        <label className="row">
          <input type="checkbox" checked={shown} onChange={(event) => setShown(event.target.checked)} />
          Show the value
        </label>
      </form>
    </Dialog>
  );
}
