import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import type { Timeline } from "../../api/types";
import { Button } from "../../design/Button";
import { Empty } from "../../design/Empty";
import { VirtualRows, type VirtualRowsHandle } from "../../design/VirtualRows";
import { EventRow } from "./EventRow";
import type { Cursor } from "./useCursor";
import { type FactFilter, isFiltered, useFound, useLog } from "./useFacts";

interface EventsProps {
  timeline: Timeline;
  cursor: Cursor;
  selected: string | null; // a step
}

const ROW = 30;
const SETTLE_MS = 250;

/** The same words, once they have not changed for a moment. */
function useSettled(words: string): string {
  const [settled, setSettled] = useState(words);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(words), SETTLE_MS);
    return () => clearTimeout(timer);
  }, [words]);
  return settled;
}

interface FiltersProps {
  timeline: Timeline;
  filter: FactFilter;
  selected: string | null;
  words: string;
  told: string;
  onWords: (words: string) => void;
  onChange: (filter: FactFilter) => void;
}

function EventFilters({ timeline, filter, selected, words, told, onWords, onChange }: FiltersProps) {
  return (
    <div className="event-filters">
      <input
        className="input" type="search" aria-label="Search events" placeholder="Search in events"
        value={words} onChange={(event) => onWords(event.target.value)}
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
      <span className="faint numbers" role="status">{told}</span>
    </div>
  );
}

export function Events({ timeline, cursor, selected }: EventsProps) {
  const [chosen, setChosen] = useState<FactFilter>({ kind: null, step: null, text: null, bad: false });
  const [words, setWords] = useState("");
  const text = useSettled(words.trim()) || null;
  const filter = useMemo<FactFilter>(() => ({ ...chosen, text }), [chosen, text]);
  const filtered = isFiltered(filter);
  const last = timeline.seq;
  const log = useLog(timeline.execution_id, last);
  const found = useFound(timeline.execution_id, filter, last);
  const rows = useRef<VirtualRowsHandle>(null);
  const seq = useDeferredValue(cursor.seq);
  const count = filtered ? found.items.length : last;

  const { items, more } = found;
  const { look } = log;
  const onSight = useCallback(
    (first: number, until: number) => {
      if (!filtered) look(first, until);
      else if (until > items.length - 30) more();
    },
    [filtered, look, items.length, more],
  );
  useEffect(() => {
    const place = filtered ? items.findLastIndex((line) => line.seq <= seq) : seq - 1;
    if (place >= 0) rows.current?.reveal(place);
  }, [seq, filtered, items]);

  const told = filtered ? `${count.toLocaleString()}${found.done ? "" : "+"} of ${last.toLocaleString()}` : `${last.toLocaleString()} facts`;
  return (
    <div className="events">
      <EventFilters
        timeline={timeline} filter={filter} selected={selected} words={words} told={told} onWords={setWords}
        onChange={({ kind, step, bad }) => setChosen({ kind, step, bad, text: null })}
      />
      {filtered && found.done && count === 0 ? (
        <Empty title="No event fits" />
      ) : (
        <VirtualRows
          ref={rows} className="event-rows" label="Events" count={count} rowHeight={ROW} onSight={onSight}
          row={(place, style) => {
            const line = filtered ? items[place] : log.at(place);
            return (
              <EventRow
                key={filtered ? (line?.seq ?? place) : place} line={line} style={style}
                startedAt={timeline.started_at} current={line?.seq === seq}
                future={(line?.seq ?? place + 1) > seq} onPick={cursor.move}
              />
            );
          }}
        />
      )}
    </div>
  );
}
