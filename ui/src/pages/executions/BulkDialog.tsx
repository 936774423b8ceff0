import { useState } from "react";
import { errorMessage } from "../../api/problem";
import type { BulkItem, BulkResponse } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { Button } from "../../design/Button";
import { Dialog } from "../../design/Dialog";
import { ErrorNotice } from "../../design/ErrorNotice";
import { TextField } from "../../design/Field";
import { SkeletonRows } from "../../design/Skeleton";
import { toast } from "../../design/toasts";
import { useDelayed } from "../../design/useDelayed";
import "./bulk.css";
import { type BulkAction, type Wanted, carryOut, executionsText, labelChange, planOf, reasonsOf, withResult } from "./bulk";

const WORDS: Record<BulkAction, { title: string; done: string; note: string }> = {
  cancel: { title: "Cancel executions", done: "cancelled", note: "They start no new step and wait for running calls to finish. This cannot be undone." },
  retry: { title: "Retry executions", done: "retried", note: "Their failed parts run again; what succeeded is kept." },
  label: { title: "Label executions", done: "labelled", note: "Labels have no effect on a run. Each change is recorded with its author." },
  delete: { title: "Delete executions", done: "deleted", note: "Their logs and the executions that they called are deleted, too. This cannot be undone." },
};

const TYPING_MS = 300; // a plan is made shortly after the last key

const SYMBOLS: Record<BulkItem["result"], string> = { planned: "→", done: "✓", unchanged: "·", refused: "✕" };

function Items({ items, label }: { items: readonly BulkItem[]; label: string }) {
  return (
    <div className="bulk-items" role="region" tabIndex={0} aria-label={label}>
      <table>
        <thead><tr><th scope="col">Result</th><th scope="col">Execution</th><th scope="col">Detail</th></tr></thead>
        <tbody>
          {items.map((item) => (
            <tr key={item.execution_id}>
              <td className={`bulk-${item.result}`}>{SYMBOLS[item.result]} {item.result}</td>
              <td><Link to={`/executions/${item.execution_id}`}>{item.path || "unknown"}</Link> <code className="faint">{item.execution_id.slice(-12)}</code></td>
              <td>{item.detail}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What will happen, or has happened: the number for each outcome, and why some executions stay as they are. */
function Counts({ response, done, isPlan }: { response: BulkResponse; done: string; isPlan: boolean }) {
  const changed = withResult(response, isPlan ? "planned" : "done").length;
  const left = response.items.filter((item) => item.result === "unchanged" || item.result === "refused");
  const beyond = (response.matching ?? 0) - response.items.length;
  return (
    <div role="status">
      <p><b>{executionsText(changed)} {isPlan ? "will be" : changed === 1 ? "was" : "were"} {done}.</b></p>
      {left.length > 0 && (
        <ul>{reasonsOf(left).slice(0, 5).map(([reason, count]) => <li key={reason}>{executionsText(count)} {count === 1 ? "stays as it is" : "stay as they are"}: {reason}</li>)}</ul>
      )}
      {beyond > 0 && <p>{executionsText(beyond)} more match. One action is limited to the newest {response.items.length.toLocaleString("en")}: repeat it for the rest.</p>}
    </div>
  );
}

interface BulkDialogProps {
  wanted: Wanted;
  onClose: () => void;
  onDone: (result: BulkResponse) => void;
}

/** Shows the plan, carries it out after a confirmation, and shows the result for each execution. */
export default function BulkDialog({ wanted, onClose, onDone }: BulkDialogProps) {
  const { title, done, note } = WORDS[wanted.action];
  const [text, setText] = useState(""); // the labels
  const change = labelChange(useDelayed(text, TYPING_MS));
  const options = wanted.action === "label" ? { labels: change } : {};
  const ready = wanted.action !== "label" || (typeof change !== "string" && Object.keys(change).length > 0);
  const plan = useResource<BulkResponse>(ready ? JSON.stringify([wanted, options]) : null, () => planOf(wanted, options));
  const [result, setResult] = useState<BulkResponse | null>(null);
  const [busy, setBusy] = useState(false);
  const [reason, setReason] = useState("");
  const count = plan.data === undefined || !ready ? 0 : withResult(plan.data, "planned").length;
  const confirm = async () => {
    if (plan.data === undefined) return;
    setBusy(true);
    try {
      const answer = await carryOut(plan.data, wanted.action === "cancel" ? { reason } : options);
      setResult(answer);
      onDone(answer);
    } catch (error) {
      toast(errorMessage(error), "error");
    } finally {
      setBusy(false);
    }
  };
  const footer = result === null ? (
    <>
      <Button onClick={onClose}>Do nothing</Button>
      <Button variant={wanted.action === "retry" || wanted.action === "label" ? "primary" : "danger"} disabled={count === 0 || busy} onClick={() => void confirm()}>
        {title.split(" ")[0]} {executionsText(count)}
      </Button>
    </>
  ) : <Button variant="primary" onClick={onClose}>Close</Button>;
  const shown = result ?? (ready ? plan.data : undefined);
  return (
    <Dialog title={title} onClose={onClose} footer={footer}>
      <div className="stack bulk">
        {result === null && wanted.action === "label" && (
          <TextField
            label="Labels"
            hint={<><code>team=data</code> adds a label, <code>-team</code> removes it. Separate several with commas.</>}
            wrong={typeof change === "string" ? change : undefined}
            value={text}
            autoFocus
            onChange={(event) => setText(event.target.value)}
          />
        )}
        {plan.error !== undefined && <ErrorNotice error={plan.error} onRetry={plan.reload} />}
        {ready && shown === undefined && plan.error === undefined && <SkeletonRows />}
        {shown !== undefined && <Counts response={shown} done={done} isPlan={result === null} />}
        {result === null && count > 0 && <p className="soft">{note}</p>}
        {result === null && wanted.action === "cancel" && count > 0 && (
          <TextField label="Reason" hint="Written to the log of each." value={reason} onChange={(event) => setReason(event.target.value)} />
        )}
        {shown !== undefined && shown.items.length > 0 && (
          <Items items={shown.items} label={result === null ? "Plan for each execution" : "Result for each execution"} />
        )}
      </div>
    </Dialog>
  );
}
