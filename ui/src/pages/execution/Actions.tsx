import { useState } from "react";
import { type Command, sendCommand, allowedCommands, isLive } from "../../api/commands";
import type { Timeline } from "../../api/types";
import { useHasScope } from "../../app/session";
import { Button } from "../../design/Button";
import { CancelDialog } from "../executions/CancelDialog";
import { SignalDialog } from "./SignalDialog";

const LABELS: Record<Exclude<Command, "signal">, string> = {
  pause: "Pause", resume: "Resume", cancel: "Cancel", retry: "Retry failed parts",
};

/** Buttons for the commands that are possible now. */
export function Actions({ timeline, owned = true }: { timeline: Timeline; owned?: boolean }) {
  const [dialog, setDialog] = useState<"cancel" | "signal" | null>(null);
  const canRun = useHasScope("run");
  if (!canRun) return null;
  const { execution_id: id, path, status, signals } = timeline;
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
      {dialog === "cancel" && <CancelDialog id={id} path={path} onClose={close} />}
      {dialog === "signal" && <SignalDialog id={id} names={signals} onClose={close} />}
    </div>
  );
}
