import { useEffect, useRef, useState } from "react";
import { copyToClipboard } from "../../design/ShellCommand";
import { type Action, formsOf, textOf } from "./requests";

/** A menu that copies each action as a command, a request or Python. */
export function CopyAs({ actions, onOpen }: { actions: readonly Action[]; onOpen?: () => void }) {
  const [open, setOpen] = useState(false);
  const menu = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const close = (event: Event) => {
      const element = menu.current;
      if (element === null || !element.open) return;
      const outside = event.type === "click" && !element.contains(event.target as Node);
      if (outside || (event instanceof KeyboardEvent && event.key === "Escape")) element.open = false;
    };
    document.addEventListener("click", close);
    document.addEventListener("keydown", close);
    return () => {
      document.removeEventListener("click", close);
      document.removeEventListener("keydown", close);
    };
  }, []);
  if (actions.length === 0) return null;
  return (
    <details
      className="copy-as" ref={menu}
      onToggle={(event) => {
        setOpen(event.currentTarget.open);
        if (event.currentTarget.open) onOpen?.();
      }}
    >
      <summary className="button">Copy as…</summary>
      {open && <div className="copy-as-menu card">
        {actions.map((action) => (
          <div key={action.name} className="row" role="group" aria-label={action.name}>
            <span className="grow">{action.name}</span>
            {formsOf(action).map((form) => (
              <button
                key={form} type="button" className="button small quiet"
                aria-label={`Copy ${action.name} as ${form}`}
                onClick={() => {
                  void copyToClipboard(textOf(action, form));
                  if (menu.current !== null) menu.current.open = false;
                }}
              >
                {form}
              </button>
            ))}
          </div>
        ))}
      </div>}
    </details>
  );
}
