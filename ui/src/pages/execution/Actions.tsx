import { useState } from "react";
import { type Command, command, fitting, isLive } from "../../api/commands";
import type { Timeline } from "../../api/types";
import { useMay } from "../../app/session";
import { Button } from "../../design/Button";
import { CancelDialog } from "../executions/CancelDialog";
import { SignalDialog } from "./SignalDialog";

const LABELS: Record<Exclude<Command, "signal">, string> = {
  pause: "Pause", resume: "Resume", cancel: "Cancel", retry: "Retry what failed",
};

/** Only what can be done as it stands. */
export function Actions({ timeline, owned = true }: { timeline: Timeline; owned?: boolean }) {
  const [asking, setAsking] = useState<"cancel" | "signal" | null>(null);
  const may = useMay("run");
  if (!may) return null;
  const { execution_id: id, path, status, signals } = timeline;
  const close = () => setAsking(null);
  return (
    <div className="row wrap">
      {isLive(status) && signals.length > 0 && (
        <Button look="primary" onClick={() => setAsking("signal")}>
          {signals.length === 1 ? `Signal ${signals[0] ?? ""}` : "Signal"}
        </Button>
      )}
      {fitting({ ...timeline, owner_alive: owned }).map((word) =>
        word === "signal" ? null : (
          <Button
            key={word}
            look={word === "cancel" ? "danger" : word === "pause" ? "normal" : "primary"}
            onClick={() => (word === "cancel" ? setAsking("cancel") : void command(id, word))}
          >
            {LABELS[word]}
          </Button>
        ),
      )}
      {asking === "cancel" && <CancelDialog id={id} path={path} onClose={close} />}
      {asking === "signal" && <SignalDialog id={id} names={signals} onClose={close} />}
    </div>
  );
}
