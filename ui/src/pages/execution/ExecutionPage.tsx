import { type CSSProperties, useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { get, isNotFound } from "../../api/client";
import { onCommand } from "../../api/commands";
import type { Head, Timeline } from "../../api/types";
import type { Connection } from "../../api/stream";
import { useResource } from "../../api/useResource";
import { Link, type Place, changed, navigate } from "../../app/router";
import { Empty } from "../../design/Empty";
import { Failed } from "../../design/Failed";
import { Skeleton } from "../../design/Skeleton";
import { Tabs } from "../../design/Tabs";
import type { PageProps } from "../../routes";
import { Events } from "./Events";
import { Gantt } from "./Gantt";
import { Inspector } from "./Inspector";
import { NetPane } from "./NetPane";
import { Scrubber } from "./Scrubber";
import { Summary } from "./Summary";
import "./execution.css";
import "./data/data.css";
import { useCursor } from "./useCursor";
import { useTimeline } from "./useTimeline";

interface ShownProps {
  place: Place;
  timeline: Timeline;
  read: boolean; // false: the timeline is only what the head says
  owned: boolean; // false: nobody runs it
  connection: Connection;
}

/** What the head says, as a timeline: the server reads the whole log for more, and that may take long. */
function firstOf(head: Head): Timeline {
  return {
    ...head, by: null, counts: [], steps: [], arcs: [], waiting: [], signals: [], marks: [], marks_left_out: 0,
    clock: [], writes: [], kinds: {},
  };
}

function BeingRead({ facts }: { facts: number }) {
  return <Empty title={`${facts.toLocaleString()} facts are being read`} />;
}

/** Everything shows the moment under one cursor. */
function Shown({ place, timeline, read, owned, connection }: ShownProps) {
  const cursor = useCursor(place, timeline.seq);
  const seq = useDeferredValue(cursor.seq); // The slider moves at once; what hangs on it follows.
  const step = place.query.get("step");
  const tab = place.query.get("tab") ?? "timeline";
  const now = useRef(place);
  useEffect(() => {
    now.current = place;
  }, [place]);
  const select = useCallback((name: string) => {
    const same = now.current.query.get("step") === name;
    navigate(changed(now.current, { step: same ? null : name }), { replace: true });
  }, []);
  return (
    <div className="execution">
      <Summary timeline={timeline} connection={connection} owned={owned} />
      <div className="execution-top">
        <NetPane timeline={timeline} read={read} seq={seq} step={step} onSelect={select} />
        <Inspector timeline={timeline} cursor={cursor} step={step} onSelect={select} />
      </div>
      {read ? <Scrubber timeline={timeline} cursor={cursor} /> : <Skeleton height={40} />}
      <section className={`execution-bottom card shows-${tab}`} aria-label="Log" style={{ "--rows": timeline.steps.length } as CSSProperties}>
        <Tabs
          label="The log"
          chosen={tab}
          onChoose={(name) => navigate(changed(place, { tab: name === "timeline" ? null : name }), { replace: true })}
          tabs={[
            { id: "timeline", label: "Timeline", body: !read ? <BeingRead facts={timeline.seq} /> : <Gantt timeline={timeline} cursor={cursor} selected={step} onSelect={select} /> },
            { id: "events", label: "Events", count: timeline.seq.toLocaleString(), body: !read ? <BeingRead facts={timeline.seq} /> : <Events timeline={timeline} cursor={cursor} selected={step} /> },
          ]}
        />
      </section>
    </div>
  );
}

/** How many words it was given from here: after each one it may stand otherwise. */
function useWords(id: string): number {
  const [words, setWords] = useState(0);
  useEffect(() => onCommand((told) => {
    if (told === id) setWords((before) => before + 1);
  }), [id]);
  return words;
}

export default function ExecutionPage({ place, values }: PageProps) {
  const id = values.id ?? "";
  const { timeline, error, connection, reload } = useTimeline(id);
  const words = useWords(id);
  const { data: head } = useResource<Head>(`${id} ${String(words)}`, (signal) => get(`/executions/${id}/head`, {}, signal));
  const first = useMemo(() => (head === undefined || error !== undefined ? null : firstOf(head)), [head, error]);
  if (timeline === null && isNotFound(error)) {
    return (
      <Empty whole title="There is no such execution" action={<Link className="button" to="/executions">All executions</Link>}>
        <code>{id}</code>
      </Empty>
    );
  }
  const shown = timeline ?? first;
  if (shown === null) {
    return (
      <div className="execution">
        {error === undefined ? <><Skeleton height={56} /><Skeleton height={420} /><Skeleton height={48} /><Skeleton height={220} /></> : <Failed error={error} onRetry={reload} />}
      </div>
    );
  }
  const owned = head === undefined || head.owner_alive || shown.seq > head.seq; // whoever goes on with it writes
  return <Shown key={id} place={place} timeline={shown} read={timeline !== null} owned={owned} connection={connection} />;
}
