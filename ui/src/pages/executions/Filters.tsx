import { useState } from "react";
import { Button } from "../../design/Button";
import type { Filter } from "./heads";

const STATUSES = ["running", "paused", "ok", "error", "cancelled"];

interface FiltersProps {
  filter: Filter;
  onChange: (changes: Record<string, string | null>) => void;
}

function PathFilter({ path, onChange }: { path: string | null; onChange: (path: string | null) => void }) {
  const [text, setText] = useState(path ?? "");
  return (
    <form
      className="path-filter"
      onSubmit={(event) => {
        event.preventDefault();
        onChange(text.trim() || null);
      }}
    >
      <input
        className="input"
        aria-label="Playbook path"
        placeholder="Full playbook path"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onBlur={() => onChange(text.trim() || null)}
      />
    </form>
  );
}

export function Filters({ filter, onChange }: FiltersProps) {
  const any = filter.status !== null || filter.path !== null || filter.open;
  return (
    <div className="filters" role="group" aria-label="Filters">
      <Button small aria-pressed={!any} onClick={() => onChange({ status: null, path: null, open: null })}>All</Button>
      <Button
        small
        aria-pressed={filter.open}
        onClick={() => onChange({ open: filter.open ? null : "true", status: null })}
      >
        Open
      </Button>
      {STATUSES.map((status) => (
        <Button
          key={status}
          small
          aria-pressed={filter.status === status}
          onClick={() => onChange({ status: filter.status === status ? null : status, open: null })}
        >
          {status}
        </Button>
      ))}
      <PathFilter key={filter.path} path={filter.path} onChange={(path) => onChange({ path })} />
    </div>
  );
}
