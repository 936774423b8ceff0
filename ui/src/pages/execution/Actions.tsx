import { useState } from "react";
import { type Command, announceCommand, sendCommand, allowedCommands, hasStarted, isLive } from "../../api/commands";
import type { Timeline } from "../../api/types";
import { Link } from "../../app/router";
import { useHasScope } from "../../app/session";
import { Button } from "../../design/Button";
import { loadable } from "../../design/loadable";
import { CancelDialog } from "../executions/CancelDialog";
import { NO_FILTER } from "../executions/heads";
import { CopyAs } from "./CopyAs";
import { SignalDialog } from "./SignalDialog";
import { type Action, commandAction, forkAction, retryAction, signalAction, startAction } from "./requests";
import { useFact } from "./useFact";
import { isObject } from "./data/shapes";

const BulkDialog = loadable(async () => (await import("../executions/BulkDialog")).default, null);
const RunAgain = loadable(async () => (await import("./RunAgain")).default, null);

const LABELS: Record<Exclude<Command, "signal">, string> = {
  pause: "Pause", resume: "Resume", cancel: "Cancel", retry: "Retry failed parts",
};

interface ActionsProps {
  timeline: Timeline;
  owned?: boolean;
  version?: number | undefined; // of the playbook
  at?: number | null; // the cursor: a fork can begin there; null: it follows the end
}

/** The actions that are possible now, for the menu "Copy as". */
function useCopied({ timeline, owned = true, version, at = null }: ActionsProps, open: boolean): Action[] {
  const { execution_id: id, path, digest, status, signals } = timeline;
  const { data } = useFact(id, open ? 1 : null);
  const workload = isObject(data?.data.workload) ? data.data.workload : {};
  const commands = allowedCommands({ ...timeline, owner_alive: owned }).map((command) =>
    command === "retry" ? retryAction(id, null) : commandAction(command === "signal" ? "Signal" : LABELS[command], id, command));
  return [
    ...commands,
    ...(isLive(status) ? signals.map((name) => signalAction(id, name, null)) : []),
    ...(hasStarted(timeline) ? [startAction(path, version, digest, workload), forkAction(id, at === null ? {} : { at })] : []),
  ];
}

/** Buttons for the commands that are possible now. */
export function Actions(props: ActionsProps) {
  const { timeline, owned = true, at = null } = props;
  const [dialog, setDialog] = useState<"cancel" | "signal" | "again" | "label" | null>(null);
  const canRun = useHasScope("run");
  const [copying, setCopying] = useState(false); // then the inputs are loaded
  const copied = useCopied(props, copying);
  const { execution_id: id, path, status, signals } = timeline;
  const started = hasStarted(timeline);
  const compare = started && (
    <>
      <Link className="button" to={`/executions/${id}/compare`}>Compare</Link>
      {!isLive(status) && <Link className="button" to={`/executions/${id}/what-if`}>What if…</Link>}
    </>
  );
  if (!canRun) return <div className="row wrap">{compare}</div>;
  const close = () => setDialog(null);
  return (
    <div className="row wrap">
      {isLive(status) && signals.length > 0 && (
        <Button variant="primary" onClick={() => setDialog("signal")}>
          {signals.length === 1 ? `Signal ${signals[0] ?? ""}` : "Signal"}
        </Button>
      )}
      {allowedCommands({ ...timeline, owner_alive: owned }).map((command) =>
        command === "signal" ? null : (
          <Button
            key={command}
            variant={command === "cancel" ? "danger" : command === "pause" ? "normal" : "primary"}
            onClick={() => (command === "cancel" ? setDialog("cancel") : void sendCommand(id, command))}
          >
            {LABELS[command]}
          </Button>
        ),
      )}
      {started && <Button onClick={() => setDialog("again")}>Run again…</Button>}
      {started && <Link className="button" to={`/executions/${id}/fork${at === null ? "" : `?at=${at}`}`}>{at === null ? "Fork…" : "Fork from here…"}</Link>}
      {compare}
      <Button onClick={() => setDialog("label")}>Label…</Button>
      <CopyAs actions={copied} onOpen={() => setCopying(true)} />
      {dialog === "cancel" && <CancelDialog id={id} path={path} onClose={close} />}
      {dialog === "signal" && <SignalDialog id={id} names={signals} onClose={close} />}
      {dialog === "label" && <BulkDialog wanted={{ action: "label", ids: [id], filter: NO_FILTER }} onClose={close} onDone={() => announceCommand(id)} />}
      {dialog === "again" && <RunAgain timeline={timeline} onClose={close} />}
    </div>
  );
}
