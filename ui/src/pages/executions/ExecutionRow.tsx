import type { CSSProperties } from "react";
import { sendCommand, allowedCommands, isInterrupted, isLive } from "../../api/commands";
import type { Glance, Head } from "../../api/types";
import { Link } from "../../app/router";
import { useHasScope } from "../../app/session";
import { StatusBadge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { ago, duration, secondsBetween, wholeTime } from "../../design/time";
import { decisionPage } from "../approvals/links";
import { Labels } from "./Labels";
import { StepsBar } from "./StepsBar";

interface RowProps {
  head: Head;
  glance: Glance | undefined;
  now: number;
  style: CSSProperties;
  onCancel: (head: Head) => void;
  selected: boolean;
  onSelect: ((id: string, toRange: boolean) => void) | undefined; // undefined: nothing can be done with a selection
}

function Trigger({ head, glance }: { head: Head; glance: Glance | undefined }) {
  if (head.parent !== null) {
    const [parent = ""] = head.parent.split("/");
    return <Link to={`/executions/${parent}`} title={head.parent}>a playbook</Link>;
  }
  return <span className="soft cut">{glance?.by ?? ""}</span>;
}

function Actions({ head, onCancel }: { head: Head; onCancel: (head: Head) => void }) {
  const canRun = useHasScope("run");
  const commands = canRun ? allowedCommands(head) : [];
  if (isInterrupted(head) && commands.includes("resume")) {
    return (
      <Button small variant="quiet" aria-label={`Resume ${head.path}`} onClick={() => void sendCommand(head.execution_id, "resume")}>
        Resume
      </Button>
    );
  }
  if (commands.includes("cancel")) {
    return <Button small variant="quiet" aria-label={`Cancel ${head.path}`} onClick={() => onCancel(head)}>Cancel</Button>;
  }
  if (commands.includes("retry")) {
    return (
      <Button small variant="quiet" aria-label={`Retry ${head.path}`} onClick={() => void sendCommand(head.execution_id, "retry")}>
        Retry
      </Button>
    );
  }
  return null;
}

export function ExecutionRow({ head, glance, now, style, onCancel, selected, onSelect }: RowProps) {
  const live = isLive(head.status);
  const interrupted = isInterrupted(head);
  const waits = head.waits ?? [];
  const seconds = secondsBetween(head.started_at, live && head.owner_alive ? now : head.updated_at);
  return (
    <div className={selected ? "execution-row selected" : "execution-row"} role="listitem" style={style}>
      <span className="cell-select">
        {onSelect !== undefined && (
          <input
            type="checkbox"
            aria-label={`Select ${head.path} ${head.execution_id}`}
            checked={selected}
            onChange={() => undefined}
            onClick={(event) => onSelect(head.execution_id, event.shiftKey)}
          />
        )}
      </span>
      <span className="cell-status" title={interrupted ? "No process runs this execution. Resume continues it." : undefined}>
        <StatusBadge status={interrupted ? "interrupted" : head.status} />
      </span>
      <span className="cell-path">
      <Link className="cell-link" to={`/executions/${head.execution_id}`}>
        <b className="cut">{head.path}</b>
        <span className="cut">
          <code className="faint">{head.execution_id}</code>
          {head.error != null && head.status !== "ok" && <span className="row-error" title={head.error}>{head.error}</span>}
          {waits.length > 0 && <span className="row-waits">waits for {waits[0]?.title || waits[0]?.signal}{waits.length > 1 && ` and ${waits.length - 1} more`}</span>}
        </span>
      </Link>
      <Labels labels={head.labels} />
      </span>
      <span className="cell-steps"><StepsBar steps={glance?.steps} /></span>
      <span className="cell-started soft numbers" title={wholeTime(head.started_at)}>{ago(head.started_at, now)}</span>
      <span className="cell-duration numbers">{duration(seconds)}</span>
      <span className="cell-by cut"><Trigger head={head} glance={glance} /></span>
      <span className="cell-actions">
        {waits[0] !== undefined && <Link className="button small" to={decisionPage(head.execution_id, waits[0].frame)} aria-label={`Decide ${head.path}`}>Decide</Link>}
        <Actions head={head} onCancel={onCancel} />
      </span>
    </div>
  );
}
