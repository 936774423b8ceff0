import { get } from "../../api/client";
import type { CalendarEntry, TriggerCalendar } from "../../api/types";
import { useInterval } from "../../api/useInterval";
import { useResource } from "../../api/useResource";
import { Link, navigate, withQuery } from "../../app/router";
import { StatusBadge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { shortTime, wholeTime } from "../../design/time";
import { useZone } from "../../design/timeZone";
import { useNow } from "../../design/useNow";
import type { PageProps } from "../../routes";
import "./calendar.css";

const REFRESH_MS = 15_000;
const DAY_MS = 86_400_000;
const ONE_BY_ONE = 8; // times of a trigger on one day that are listed

const dayOf = (at: number, utc: boolean): string => {
  const date = new Date(at);
  const shifted = utc ? date : new Date(at - date.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 10);
};

const startOf = (day: string, utc: boolean): Date => new Date(utc ? `${day}T00:00:00Z` : `${day}T00:00:00`);

function Entry({ entry }: { entry: CalendarEntry }) {
  const status = entry.execution_status ?? entry.status;
  const isFuture = entry.status == null;
  return (
    <li className={isFuture ? "calendar-entry future" : "calendar-entry"}>
      <span className="numbers" title={wholeTime(entry.at)}>{shortTime(entry.at, new Date(entry.at))}</span>
      <Link to={entry.execution_id == null ? `/triggers?open=${encodeURIComponent(`${entry.path}:${entry.name}`)}` : `/executions/${entry.execution_id}`}>{entry.path}</Link>
      <span className="soft">{entry.name}</span>
      {isFuture ? <span className="faint">planned</span> : status != null && <StatusBadge status={status} />}
      {entry.detail !== "" && <span className="soft">{entry.detail}</span>}
    </li>
  );
}

/** Many times of one trigger on one day: their number for each status. */
function Summary({ entries }: { entries: readonly CalendarEntry[] }) {
  const counts = new Map<string, number>();
  for (const each of entries) {
    const key = each.execution_status ?? each.status ?? "planned";
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const bad = entries.filter((each) => each.execution_status === "error" || each.status === "failed");
  const [first] = entries;
  if (first === undefined) return null;
  return (
    <li className="calendar-entry">
      <span className="numbers">{entries.length}×</span>
      <Link to={`/triggers?open=${encodeURIComponent(`${first.path}:${first.name}`)}`}>{first.path}</Link>
      <span className="soft">{first.name}: {[...counts].map(([key, count]) => `${count} ${key}`).join(", ")}</span>
      {bad.length > 0 && <ul>{bad.slice(0, ONE_BY_ONE).map((each) => <Entry key={each.at} entry={each} />)}</ul>}
    </li>
  );
}

function Day({ day, entries, today }: { day: string; entries: readonly CalendarEntry[]; today: boolean }) {
  const groups = new Map<string, CalendarEntry[]>();
  for (const each of entries) {
    const key = `${each.path}:${each.name}`;
    groups.set(key, [...(groups.get(key) ?? []), each]);
  }
  const dense = [...groups.values()].filter((each) => each.length > ONE_BY_ONE);
  const single = entries.filter((each) => (groups.get(`${each.path}:${each.name}`)?.length ?? 0) <= ONE_BY_ONE);
  return (
    <section className="card padded calendar-day" aria-label={day}>
      <h2>{day}{today && <span className="soft"> today</span>}</h2>
      {entries.length === 0 && <p className="faint">nothing</p>}
      <ul>
        {dense.map((each) => <Summary key={`${each[0]?.path ?? ""}:${each[0]?.name ?? ""}`} entries={each} />)}
        {single.map((each) => <Entry key={`${each.at} ${each.path} ${each.name}`} entry={each} />)}
      </ul>
    </section>
  );
}

/** When triggers have fired, with the status of the execution, and when they will fire. `?day=` and `?days=` in the URL. */
export default function CalendarPage({ location }: PageProps) {
  const utc = useZone() === "UTC";
  const today = dayOf(useNow(60_000, true), utc);
  const day = location.query.get("day") ?? today;
  const days = location.query.get("days") === "7" ? 7 : 1;
  const start = startOf(day, utc);
  const since = Number.isNaN(start.getTime()) ? startOf(today, utc) : start;
  const { data, error, reload } = useResource<TriggerCalendar>(`calendar ${since.toISOString()} ${days}`, (signal) => get("/triggers/calendar", { since: since.toISOString(), days }, signal));
  useInterval(REFRESH_MS, reload);
  const show = (changes: Record<string, string | null>) => navigate(withQuery(location, changes), { replace: true });
  const move = (by: number) => show({ day: dayOf(since.getTime() + by * days * DAY_MS + DAY_MS / 2, utc) });
  const shown = Array.from({ length: days }, (_, place) => dayOf(since.getTime() + place * DAY_MS + DAY_MS / 2, utc));
  return (
    <div className="page">
      <div className="page-head">
        <h1>Schedule</h1>
        <span className="soft">What triggers have started, and when they fire next</span>
      </div>
      <div className="row wrap calendar-tools" role="group" aria-label="Period">
        <Button small onClick={() => move(-1)}>{days === 1 ? "Previous day" : "Previous week"}</Button>
        <Button small onClick={() => show({ day: null })}>Today</Button>
        <Button small onClick={() => move(1)}>{days === 1 ? "Next day" : "Next week"}</Button>
        <Button small aria-pressed={days === 1} onClick={() => show({ days: null })}>Day</Button>
        <Button small aria-pressed={days === 7} onClick={() => show({ days: "7" })}>Week</Button>
        <Link className="button small" to="/triggers">Triggers</Link>
      </div>
      {error !== undefined && <ErrorNotice error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <SkeletonRows />}
      {data !== undefined && (
        <>
          {data.cut.map((each) => (
            <p key={`${each.path}:${each.name}`} className="soft">
              {each.path} {each.name} ({each.schedule}) fires too often: only the times around now are shown.
            </p>
          ))}
          <div className="calendar">
            {shown.map((each) => (
              <Day key={each} day={each} today={each === today} entries={data.entries.filter((entry) => dayOf(Date.parse(entry.at), utc) === each)} />
            ))}
          </div>
        </>
      )}
    </div>
  );
}
