import type { CSSProperties } from "react";
import { command, fitting, isInterrupted, isLive } from "../../api/commands";
import type { Glance, Head } from "../../api/types";
import { Link } from "../../app/router";
import { useMay } from "../../app/session";
import { StatusBadge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { ago, duration, secondsBetween, wholeTime } from "../../design/times";
import { StepsBar } from "./StepsBar";

interface RowProps {
  head: Head;
  glance: Glance | undefined;
  now: number;
  style: CSSProperties;
  onCancel: (head: Head) => void;
}

function Trigger({ head, glance }: { head: Head; glance: Glance | undefined }) {
  if (head.parent !== null) {
    const [parent = ""] = head.parent.split("/");
    return <Link to={`/executions/${parent}`} title={head.parent}>a playbook</Link>;
  }
  return <span className="soft cut">{glance?.by ?? ""}</span>;
}

function Actions({ head, onCancel }: { head: Head; onCancel: (head: Head) => void }) {
  const may = useMay("run");
  const words = may ? fitting(head) : [];
  if (isInterrupted(head) && words.includes("resume")) {
    return (
      <Button small look="quiet" aria-label={`Resume ${head.path}`} onClick={() => void command(head.execution_id, "resume")}>
        Resume
      </Button>
    );
  }
  if (words.includes("cancel")) {
    return <Button small look="quiet" aria-label={`Cancel ${head.path}`} onClick={() => onCancel(head)}>Cancel</Button>;
  }
  if (words.includes("retry")) {
    return (
      <Button small look="quiet" aria-label={`Retry ${head.path}`} onClick={() => void command(head.execution_id, "retry")}>
        Retry
      </Button>
    );
  }
  return null;
}

export function ExecutionRow({ head, glance, now, style, onCancel }: RowProps) {
  const live = isLive(head.status);
  const stalled = isInterrupted(head);
  const seconds = secondsBetween(head.started_at, live && head.owner_alive ? now : head.updated_at);
  return (
    <div className="execution-row" role="listitem" style={style}>
      <span className="cell-status" title={stalled ? "Nobody runs it: its process has ended" : undefined}>
        <StatusBadge status={stalled ? "interrupted" : head.status} />
      </span>
      <Link className="cell-path" to={`/executions/${head.execution_id}`}>
        <b className="cut">{head.path}</b>
        <code className="faint cut">{head.execution_id}</code>
      </Link>
      <span className="cell-steps"><StepsBar steps={glance?.steps} /></span>
      <span className="cell-started soft numbers" title={wholeTime(head.started_at)}>{ago(head.started_at, now)}</span>
      <span className="cell-duration numbers">{duration(seconds)}</span>
      <span className="cell-by cut"><Trigger head={head} glance={glance} /></span>
      <span className="cell-actions"><Actions head={head} onCancel={onCancel} /></span>
    </div>
  );
}
