import { useId, useMemo, useState } from "react";
import { Button } from "../../design/Button";
import { ShellCommand } from "../../design/ShellCommand";
import { type Input, type Written, parseInputs, readInputs } from "./workload";

interface RunFormProps {
  text: string;
  path: string;
  label: string; // of the button
  disabled: string | null; // the reason why it cannot run; null: it can
  onRun: OnRun;
}

export type OnRun = (workload: Record<string, unknown>, secrets: Record<string, string>) => Promise<void>;

/** One field for each declared input, or each key of the workload. Unchanged fields keep the defaults of the playbook. */
export function RunForm({ text, path, label, disabled, onRun }: RunFormProps) {
  const inputs = useMemo(() => parseInputs(text), [text]);
  const [written, setWritten] = useState<Written>({});
  const [running, setRunning] = useState(false);
  const { workload, secrets, wrong } = readInputs(inputs, written);
  const run = async () => {
    setRunning(true);
    await onRun(workload, secrets);
    setRunning(false);
  };
  return (
    <form
      className="run-form stack"
      aria-label="Run this playbook"
      onSubmit={(event) => {
        event.preventDefault();
        void run();
      }}
    >
      {inputs.length === 0 && <p className="soft">This playbook has no inputs: its <code>workload</code> is empty.</p>}
      {inputs.map((each) => (
        <InputField
          key={each.name}
          input={each}
          value={written[each.name] ?? each.written}
          wrong={each.name in written ? wrong[each.name] : undefined}
          onChange={(value) => setWritten((old) => ({ ...old, [each.name]: value }))}
        />
      ))}
      {disabled !== null && <p className="notice waiting">{disabled}</p>}
      <div className="row wrap">
        <Button variant="primary" type="submit" disabled={running || disabled !== null || Object.keys(wrong).length > 0}>
          {running ? "Starting…" : label}
        </Button>
        {Object.keys(written).length > 0 && <Button variant="quiet" onClick={() => setWritten({})}>Reset to defaults</Button>}
      </div>
      {path !== "" && (
        <div className="stack">
          <span className="label">The same request with curl</span>
          <ShellCommand text={curlCommand(path, workload, Object.keys(secrets))} />
        </div>
      )}
    </form>
  );
}

/** Secrets are not shown: their values are to be filled in. */
function curlCommand(path: string, workload: Record<string, unknown>, secrets: readonly string[]): string {
  const hidden = Object.fromEntries(secrets.map((name) => [name, "…"]));
  const parts = { path, ...(Object.keys(workload).length > 0 ? { workload } : {}), ...(secrets.length > 0 ? { secrets: hidden } : {}) };
  const body = JSON.stringify(parts).replaceAll("'", "'\\''");
  return `curl -X POST ${window.location.origin}/executions -H 'Content-Type: application/json' -d '${body}'`;
}

function hintOf({ kind, hint, required }: Input): string {
  const form = kind === "data" ? "YAML or JSON" : kind === "number" ? "a number" : "";
  return [hint ?? form, ...(hint !== undefined && kind === "data" ? [form] : []), ...(required === true ? ["required"] : [])].join("; ");
}

interface InputFieldProps {
  input: Input;
  value: string;
  wrong: string | undefined;
  onChange: (value: string) => void;
}

export function InputField({ input, value, wrong, onChange }: InputFieldProps) {
  const id = useId();
  if (input.kind === "flag") {
    return (
      <label className="row">
        <input type="checkbox" checked={value === "true"} onChange={(event) => onChange(String(event.target.checked))} />
        <code>{input.name}</code>
        {input.hint !== undefined && <span className="hint">{input.hint}</span>}
      </label>
    );
  }
  const shared = {
    id,
    className: "input",
    value,
    "aria-invalid": wrong !== undefined,
    "aria-describedby": `${id}-hint`,
    onChange: (event: { target: { value: string } }) => onChange(event.target.value),
  };
  const isLong = input.kind === "data" || input.written.includes("\n");
  return (
    <div className="field">
      <label htmlFor={id} className="mono">{input.name}</label>
      {input.choices !== undefined ? (
        <select {...shared}>
          {!input.choices.includes(input.written) && <option value={input.written}>{input.written}</option>}
          {input.choices.map((each) => <option key={each}>{each}</option>)}
        </select>
      ) : isLong ? (
        <textarea {...shared} rows={Math.min(12, Math.max(3, value.split("\n").length))} spellCheck={false} />
      ) : (
        <input
          {...shared}
          type={input.kind === "date" ? "date" : input.kind === "secret" ? "password" : "text"}
          inputMode={input.kind === "number" ? "decimal" : "text"}
          autoComplete={input.kind === "secret" ? "new-password" : "off"}
        />
      )}
      <span id={`${id}-hint`} className={wrong === undefined ? "hint" : "wrong"}>
        {wrong ?? hintOf(input)}
      </span>
    </div>
  );
}
