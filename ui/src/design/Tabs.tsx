import { type KeyboardEvent, type ReactNode, useId, useRef } from "react";

export interface TabShown {
  id: string;
  label: string;
  count?: number | string | undefined;
  body: ReactNode;
}

interface TabsProps {
  label: string; // for whoever does not see them
  tabs: TabShown[];
  chosen: string;
  onChoose: (id: string) => void;
}

/** Only the chosen tab is drawn. Arrow keys go from one to the next. */
export function Tabs({ label, tabs, chosen, onChoose }: TabsProps) {
  const prefix = useId();
  const list = useRef<HTMLDivElement>(null);
  const shown = tabs.find((tab) => tab.id === chosen) ?? tabs[0];
  const step = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined || shown === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const place = (tabs.indexOf(shown) + by + tabs.length) % tabs.length;
    const next = tabs[place];
    if (next === undefined) return;
    onChoose(next.id);
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[place]?.focus();
  };
  return (
    <>
      <div className="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={step}>
        {tabs.map((tab) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            className="tab"
            id={`${prefix}-${tab.id}`}
            aria-selected={tab === shown}
            aria-controls={`${prefix}-body`}
            tabIndex={tab === shown ? 0 : -1}
            onClick={() => onChoose(tab.id)}
          >
            {tab.label}
            {tab.count !== undefined && <span className="count numbers">{tab.count}</span>}
          </button>
        ))}
      </div>
      <div
        role="tabpanel"
        className="tab-body"
        id={`${prefix}-body`}
        aria-labelledby={shown && `${prefix}-${shown.id}`}
      >
        {shown?.body}
      </div>
    </>
  );
}
