import { useSyncExternalStore } from "react";
import { Button } from "./Button";
import { dismiss, onToasts, toastsNow } from "./toasts";

export function Toasts() {
  const toasts = useSyncExternalStore(onToasts, toastsNow);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {toasts.map((each) => (
        <div key={each.id} className={`toast ${each.tone}`}>
          <span className="grow">{each.text}</span>
          <Button variant="quiet" small icon aria-label="Dismiss" onClick={() => dismiss(each.id)}>
            ✕
          </Button>
        </div>
      ))}
    </div>
  );
}
