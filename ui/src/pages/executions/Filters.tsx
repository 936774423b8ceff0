import { useEffect, useRef, useState } from "react";
import { get } from "../../api/client";
import type { VersionsPage } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { Button } from "../../design/Button";
import { historyLink } from "../playbooks/links";
import { type Filter, isFiltered } from "./heads";

const STATUSES = ["running", "paused", "interrupted", "cancelling", "ok", "error", "cancelled"];
const RANGES = [
  ["", "Any time"], ["1h", "Last hour"], ["24h", "Last 24 hours"], ["7d", "Last 7 days"], ["30d", "Last 30 days"],
] as const;
const BETWEEN = "between";
const TYPING_MS = 300;

interface FiltersProps {
  filter: Filter;
  onChange: (changes: Record<string, string | null>) => void;
}

/** Searches shortly after the last key: each search is a request. */
function SearchField({ search, onChange }: { search: string | null; onChange: (search: string | null) => void }) {
  const [text, setText] = useState(search ?? "");
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const commit = (now: string) => {
    clearTimeout(timer.current);
    if ((now.trim() || null) !== search) onChange(now.trim() || null);
  };
  return (
    <form
      className="search-filter"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        commit(text);
      }}
    >
      <input
        className="input"
        type="search"
        aria-label="Search executions"
        placeholder="Path, id, label or error"
        value={text}
        onChange={(event) => {
          const now = event.target.value;
          setText(now);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => commit(now), TYPING_MS);
        }}
      />
    </form>
  );
}

function TimeFilter({ filter, onChange }: FiltersProps) {
  const known = RANGES.some(([value]) => value === (filter.since ?? ""));
  const between = filter.until !== null || !known;
  const bound = (key: "since" | "until", label: string) => (
    <input
      className="input"
      type="datetime-local"
      aria-label={label}
      value={localTime(filter[key])}
      onChange={(event) => onChange({ [key]: event.target.value === "" ? null : new Date(event.target.value).toISOString() })}
    />
  );
  return (
    <>
      <select
        className="input small-input"
        aria-label="Started"
        value={between ? BETWEEN : (filter.since ?? "")}
        onChange={({ target: { value } }) => {
          const dayAgo = new Date(Date.now() - 86_400_000).toISOString();
          onChange(value === BETWEEN ? { since: dayAgo, until: new Date().toISOString() } : { since: value || null, until: null });
        }}
      >
        {RANGES.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
        <option value={BETWEEN}>Between…</option>
      </select>
      {between && <span className="time-range">{bound("since", "Started from")} – {bound("until", "Started before")}</span>}
    </>
  );
}

function localTime(at: string | null): string {
  if (at === null || Number.isNaN(Date.parse(at))) return "";
  const time = new Date(at);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The playbook and its version: links from the pages of a playbook set them. */
function PlaybookFilter({ path, filter, onChange }: FiltersProps & { path: string }) {
  const versions = useResource<VersionsPage>(path, (signal) => get("/playbooks/versions", { path }, signal));
  return (
    <span className="playbook-filter">
      <span className="cut" title={path}>{path}</span>
      <select
        className="input small-input"
        aria-label="Version"
        value={filter.version ?? ""}
        onChange={(event) => onChange({ version: event.target.value || null })}
      >
        <option value="">All versions</option>
        {(versions.data?.items ?? []).map(({ version }) => <option key={version} value={version}>Version {version}</option>)}
      </select>
      <Link className="button small quiet" to={historyLink(path)}>History</Link>
      <Button small variant="quiet" icon aria-label={`Remove the filter ${path}`} onClick={() => onChange({ path: null, version: null })}>✕</Button>
    </span>
  );
}

export function Filters({ filter, onChange }: FiltersProps) {
  const clear = Object.fromEntries(Object.keys(filter).map((key) => [key, null]));
  return (
    <div className="filters" role="group" aria-label="Filters">
      <SearchField key={filter.search} search={filter.search} onChange={(search) => onChange({ search })} />
      <Button small aria-pressed={!isFiltered(filter)} onClick={() => onChange(clear)}>All</Button>
      <Button small aria-pressed={filter.open} onClick={() => onChange({ open: filter.open ? null : "true", status: null })}>Open</Button>
      <Button small aria-pressed={filter.waiting} onClick={() => onChange({ waiting: filter.waiting ? null : "true" })}>
        Waits for a person
      </Button>
      <select
        className="input small-input"
        aria-label="Status"
        value={filter.status ?? ""}
        onChange={(event) => onChange({ status: event.target.value || null, open: null })}
      >
        <option value="">Any status</option>
        {STATUSES.map((status) => <option key={status}>{status}</option>)}
      </select>
      <TimeFilter filter={filter} onChange={onChange} />
      {filter.label !== null && (
        <span className="playbook-filter">
          <span className="cut" title={filter.label}>{filter.label}</span>
          <Button small variant="quiet" icon aria-label={`Remove the filter ${filter.label}`} onClick={() => onChange({ label: null })}>✕</Button>
        </span>
      )}
      {filter.path !== null && <PlaybookFilter path={filter.path} filter={filter} onChange={onChange} />}
    </div>
  );
}
