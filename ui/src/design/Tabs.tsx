import { type KeyboardEvent, type ReactNode, useId, useRef } from "react";

export interface Tab {
  id: string;
  label: string;
  count?: number | string | undefined;
  body: ReactNode;
}

interface TabsProps {
  label: string; // for screen readers
  tabs: Tab[];
  chosen: string;
  onChoose: (id: string) => void;
}

/** Renders the body of the chosen tab only. Arrow keys select the next or previous tab. */
export function Tabs({ label, tabs, chosen, onChoose }: TabsProps) {
  const prefix = useId();
  const list = useRef<HTMLDivElement>(null);
  const active = tabs.find((tab) => tab.id === chosen) ?? tabs[0];
  const step = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined || active === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const index = (tabs.indexOf(active) + by + tabs.length) % tabs.length;
    const next = tabs[index];
    if (next === undefined) return;
    onChoose(next.id);
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[index]?.focus();
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
            aria-selected={tab === active}
            aria-controls={`${prefix}-body`}
            tabIndex={tab === active ? 0 : -1}
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
        aria-labelledby={active && `${prefix}-${active.id}`}
      >
        {active?.body}
      </div>
    </>
  );
}
