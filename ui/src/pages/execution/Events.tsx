import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import type { Timeline } from "../../api/types";
import { Button } from "../../design/Button";
import { EmptyState } from "../../design/EmptyState";
import { VirtualRows, type VirtualRowsHandle } from "../../design/VirtualRows";
import { EventRow } from "./EventRow";
import type { Cursor } from "./useCursor";
import { type FactFilter, isFiltered, useFilteredFacts, useFactPages } from "./useFacts";

interface EventsProps {
  timeline: Timeline;
  cursor: Cursor;
  selected: string | null; // a step
}

const ROW = 30;
const DEBOUNCE_MS = 250;

/** The text, once it has not changed for a moment. */
function useDebounced(text: string): string {
  const [debounced, setDebounced] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setDebounced(text), DEBOUNCE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return debounced;
}

interface FiltersProps {
  timeline: Timeline;
  filter: FactFilter;
  selected: string | null;
  search: string;
  status: string;
  onSearch: (search: string) => void;
  onChange: (filter: FactFilter) => void;
}

function EventFilters({ timeline, filter, selected, search, status, onSearch, onChange }: FiltersProps) {
  return (
    <div className="event-filters">
      <input
        className="input" type="search" aria-label="Search events" placeholder="Search events"
        value={search} onChange={(event) => onSearch(event.target.value)}
      />
      <select
        className="input" aria-label="Kind of event" value={filter.kind ?? ""}
        onChange={(event) => onChange({ ...filter, kind: event.target.value || null })}
      >
        <option value="">All kinds</option>
        {Object.entries(timeline.kinds).map(([kind, count]) => (
          <option key={kind} value={kind}>{kind} ({count.toLocaleString()})</option>
        ))}
      </select>
      <select
        className="input" aria-label="Step" value={filter.step ?? ""}
        onChange={(event) => onChange({ ...filter, step: event.target.value || null })}
      >
        <option value="">All steps</option>
        {timeline.steps.map(({ step }) => <option key={step} value={step}>{step}</option>)}
      </select>
      {selected !== null && filter.step !== selected && (
        <Button small onClick={() => onChange({ ...filter, step: selected })}>Only {selected}</Button>
      )}
      <Button small aria-pressed={filter.bad} onClick={() => onChange({ ...filter, bad: !filter.bad })}>Failures</Button>
      <span className="faint numbers" role="status">{status}</span>
    </div>
  );
}

export function Events({ timeline, cursor, selected }: EventsProps) {
  const [chosen, setChosen] = useState<FactFilter>({ kind: null, step: null, text: null, bad: false });
  const [search, setSearch] = useState("");
  const text = useDebounced(search.trim()) || null;
  const filter = useMemo<FactFilter>(() => ({ ...chosen, text }), [chosen, text]);
  const filtered = isFiltered(filter);
  const last = timeline.seq;
  const log = useFactPages(timeline.execution_id, last);
  const found = useFilteredFacts(timeline.execution_id, filter, last);
  const rows = useRef<VirtualRowsHandle>(null);
  const seq = useDeferredValue(cursor.seq);
  const count = filtered ? found.items.length : last;

  const { items, loadMore } = found;
  const { load } = log;
  const onVisible = useCallback(
    (first: number, until: number) => {
      if (!filtered) load(first, until);
      else if (until > items.length - 30) loadMore();
    },
    [filtered, load, items.length, loadMore],
  );
  useEffect(() => {
    const index = filtered ? items.findLastIndex((line) => line.seq <= seq) : seq - 1;
    if (index >= 0) rows.current?.reveal(index);
  }, [seq, filtered, items]);

  const status = filtered ? `${count.toLocaleString()}${found.done ? "" : "+"} of ${last.toLocaleString()}` : `${last.toLocaleString()} facts`;
  return (
    <div className="events">
      <EventFilters
        timeline={timeline} filter={filter} selected={selected} search={search} status={status} onSearch={setSearch}
        onChange={({ kind, step, bad }) => setChosen({ kind, step, bad, text: null })}
      />
      {filtered && found.done && count === 0 ? (
        <EmptyState title="No matching events" />
      ) : (
        <VirtualRows
          ref={rows} className="event-rows" label="Events" count={count} rowHeight={ROW} onVisible={onVisible}
          row={(index, style) => {
            const line = filtered ? items[index] : log.at(index);
            return (
              <EventRow
                key={filtered ? (line?.seq ?? index) : index} line={line} style={style}
                startedAt={timeline.started_at} current={line?.seq === seq}
                future={(line?.seq ?? index + 1) > seq} onPick={cursor.move}
              />
            );
          }}
        />
      )}
    </div>
  );
}
