import { useState } from "react";
import { sendCommand } from "../../api/commands";
import { Button } from "../../design/Button";
import { Dialog } from "../../design/Dialog";
import { TextField } from "../../design/Field";

interface SignalProps {
  id: string;
  names: readonly string[]; // signals that the execution waits for now
  onClose: () => void;
}

/** Parses JSON; an empty text is null. `wrong`: the error message. */
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
  const send = async () => {
    if (await sendCommand(id, "signal", { name: name.trim(), data: value })) onClose();
  };
  return (
    <Dialog
      title="Send a signal"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" disabled={name.trim() === "" || wrong !== undefined} onClick={() => void send()}>Send</Button>
        </>
      }
    >
      <div className="stack">
        <TextField
          label="Name"
          hint={names.length > 0 ? `The execution waits for ${names.join(", ")}.` : "The execution waits for no signal."}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <label className="field">
          <span className="label">Data (JSON)</span>
          <textarea
            className="input"
            placeholder={'{"approved": true}'}
            aria-invalid={wrong !== undefined}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <span className={wrong === undefined ? "hint" : "wrong"}>{wrong ?? "It becomes the output of the waiting task."}</span>
        </label>
      </div>
    </Dialog>
  );
}
