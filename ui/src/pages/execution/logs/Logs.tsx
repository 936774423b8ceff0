import { type CSSProperties, useDeferredValue, useMemo, useState } from "react";
import { download } from "../../../api/download";
import type { PrintedLine, Timeline } from "../../../api/types";
import { navigate, type RouteLocation, withQuery } from "../../../app/router";
import { Button } from "../../../design/Button";
import { EmptyState } from "../../../design/EmptyState";
import { ErrorNotice } from "../../../design/ErrorNotice";
import { VirtualRows } from "../../../design/VirtualRows";
import { shortTime } from "../../../design/time";
import { piecesOf, plainText } from "./ansi";
import "./logs.css";
import { useLines } from "./useLines";

const ROW = 22;

interface LineProps {
  line: PrintedLine;
  place: number;
  style: CSSProperties;
  chosen: boolean;
  onCall: (call: string) => void;
  onChoose: () => void;
}

function LogLine({ line, style, chosen, onCall, onChoose }: LineProps) {
  return (
    <div role="listitem" className={`log-line ${line.stream}${chosen ? " chosen" : ""}`} style={style}>
      <span className="faint numbers log-at" title={line.at}>{shortTime(line.at)}</span>
      <button type="button" className="log-call" aria-label={line.call} title={`Only ${line.call}`} onClick={() => onCall(line.call)}><CallName call={line.call} /></button>
      <button type="button" className="log-text" aria-label={`${line.stream}: ${plainText(line.text)}`} aria-expanded={chosen} onClick={onChoose}>
        <LogText text={line.text} />
      </button>
    </div>
  );
}

/** The beginning of a long name is cut off: its end says which run and which item. */
function CallName({ call }: { call: string }) {
  const at = call.lastIndexOf("#");
  return at < 0 ? <span className="cut">{call}</span> : <><span className="cut">{call.slice(0, at)}</span><span>{call.slice(at)}</span></>;
}

function LogText({ text }: { text: string }) {
  return piecesOf(text).map(({ text: piece, look }, index) => (look === "" ? piece : <span key={index} className={look}>{piece}</span>));
}

interface LogsProps {
  location: RouteLocation;
  timeline: Timeline;
}

/** What tasks have printed: live, merged or of one call. `?log=` in the URL names the step, run or call. */
export default function Logs({ location, timeline }: LogsProps) {
  const id = timeline.execution_id;
  const step = location.query.get("log");
  const [failed, setFailed] = useState(false);
  const [search, setSearch] = useState("");
  const [following, setFollowing] = useState(true);
  const [chosen, setChosen] = useState<PrintedLine | null>(null);
  const [attempt, setAttempt] = useState(0);
  const { items, left, done, error } = useLines(id, { step, failed }, attempt);
  const wanted = useDeferredValue(search).trim().toLowerCase();
  const shown = useMemo(
    () => (wanted === "" ? items : items.filter((line) => `${line.call} ${plainText(line.text)}`.toLowerCase().includes(wanted))),
    [items, wanted],
  );
  const choose = (name: string | null) => navigate(withQuery(location, { log: name }), { replace: true });
  const steps = timeline.steps.map((line) => line.step);
  return (
    <div className="logs">
      <div className="event-filters">
        <input className="input" type="search" aria-label="Search the logs" placeholder="Search the logs" value={search} onChange={(event) => setSearch(event.target.value)} />
        <select className="input" aria-label="Of" value={step ?? ""} onChange={(event) => choose(event.target.value || null)}>
          <option value="">All calls</option>
          {steps.map((name) => <option key={name} value={name}>{name}</option>)}
          {step !== null && !steps.includes(step) && <option value={step}>{step}</option>}
        </select>
        <label className="row"><input type="checkbox" checked={failed} onChange={(event) => setFailed(event.target.checked)} /> Failed calls</label>
        <label className="row"><input type="checkbox" checked={following} onChange={(event) => setFollowing(event.target.checked)} /> Follow</label>
        <span className="soft numbers grow" role="status">
          {wanted === "" ? `${items.length.toLocaleString()} lines` : `${shown.length.toLocaleString()} of ${items.length.toLocaleString()} lines`}
          {left > 0 && `, ${left.toLocaleString()} earlier ones are in the file`}
        </span>
        <Button small onClick={() => void download(`/executions/${id}/logs/text`, { step, failed: failed || null }, `${id}.log`)}>Download</Button>
      </div>
      {error !== undefined && <ErrorNotice error={error} onRetry={() => setAttempt(attempt + 1)} />}
      {shown.length === 0 && error === undefined && (
        <EmptyState title={!done ? "No lines yet" : wanted === "" ? "Nothing was printed" : `No line contains “${wanted}”`} />
      )}
      {shown.length > 0 && (
        <div className="log-box" onWheel={(event) => { if (event.deltaY < 0) setFollowing(false); }}>
          <VirtualRows
            atEnd={following} className="log-rows" label="Log lines" count={shown.length} rowHeight={ROW}
            row={(place, style) => {
              const line = shown[place];
              if (line === undefined) return null;
              return (
                <LogLine
                  key={place} line={line} place={place} style={style} chosen={line === chosen} onCall={choose}
                  onChoose={() => setChosen(line === chosen ? null : line)}
                />
              );
            }}
          />
        </div>
      )}
      {chosen !== null && <pre className="data-text log-whole" tabIndex={0}><LogText text={chosen.text} /></pre>}
    </div>
  );
}
