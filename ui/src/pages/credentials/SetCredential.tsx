import { type SyntheticEvent, useId, useState } from "react";
import { ask } from "../../api/client";
import { inWords } from "../../api/problem";
import type { components } from "../../api/schema";
import { Button } from "../../design/Button";
import { Dialog } from "../../design/Dialog";
import { TextField } from "../../design/Field";
import { toast } from "../../design/toasts";

interface SetCredentialProps {
  name: string; // "": a new one
  onClose: () => void;
  onDone: () => void;
}

/** The value leaves the page with the request and is kept nowhere. */
export function SetCredential({ name: given, onClose, onDone }: SetCredentialProps) {
  const [name, setName] = useState(given);
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
      const stored = await ask<components["schemas"]["CredentialStored"]>(path, { method: "PUT", body: { value } });
      toast(`${stored.name} is stored, version ${stored.version}`);
      onDone();
      onClose();
    } catch (error) {
      setWrong(inWords(error));
      setSending(false);
    }
  };
  return (
    <Dialog
      title={given === "" ? "Set a credential" : `Replace ${given}`}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" form={form} disabled={sending || name.trim() === "" || value === ""}>Store it</Button>
        </>
      }
    >
      <form id={form} className="stack" onSubmit={(event) => void send(event)}>
        <TextField
          label="Name"
          value={name}
          readOnly={given !== ""}
          autoFocus={given === ""}
          placeholder="db/main"
          autoComplete="off"
          hint="Playbooks know it by this: keychain: [{name: db, kind: stored, key: db/main}]"
          onChange={(event) => setName(event.target.value)}
        />
        <TextField
          label="Value"
          type={shown ? "text" : "password"}
          value={value}
          autoFocus={given !== ""}
          autoComplete="new-password"
          wrong={wrong}
          hint="A text, or JSON for a credential of several parts"
          onChange={(event) => setValue(event.target.value)}
        />
        <label className="row">
          <input type="checkbox" checked={shown} onChange={(event) => setShown(event.target.checked)} />
          Show what I type
        </label>
      </form>
    </Dialog>
  );
}
