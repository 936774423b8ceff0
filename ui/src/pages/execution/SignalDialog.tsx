import { useState } from "react";
import { command } from "../../api/commands";
import { Button } from "../../design/Button";
import { Dialog } from "../../design/Dialog";
import { TextField } from "../../design/Field";

interface SignalProps {
  id: string;
  names: readonly string[]; // that the execution waits for now
  onClose: () => void;
}

/** JSON, or null and why it is none. Nothing at all is null, which is JSON. */
function parsed(text: string): { value: unknown; wrong: string | undefined } {
  if (text.trim() === "") return { value: null, wrong: undefined };
  try {
    return { value: JSON.parse(text) as unknown, wrong: undefined };
  } catch (error) {
    return { value: null, wrong: error instanceof Error ? error.message : String(error) };
  }
}

export function SignalDialog({ id, names, onClose }: SignalProps) {
  const [name, setName] = useState(names[0] ?? "");
  const [text, setText] = useState("");
  const { value, wrong } = parsed(text);
  const sendIt = async () => {
    if (await command(id, "signal", { name: name.trim(), data: value })) onClose();
  };
  return (
    <Dialog
      title="Send a signal"
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button look="primary" disabled={name.trim() === "" || wrong !== undefined} onClick={() => void sendIt()}>Send</Button>
        </>
      }
    >
      <div className="stack">
        <TextField
          label="Name"
          hint={names.length > 0 ? `It waits for ${names.join(", ")}.` : "Nothing waits for a signal any more."}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <label className="field">
          <span className="label">Data, as JSON</span>
          <textarea
            className="input"
            placeholder={'{"approved": true}'}
            aria-invalid={wrong !== undefined}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <span className={wrong === undefined ? "hint" : "wrong"}>{wrong ?? "The task that waits gives it back as its output."}</span>
        </label>
      </div>
    </Dialog>
  );
}
