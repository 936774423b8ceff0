import { type CSSProperties, useCallback, useDeferredValue, useEffect, useRef } from "react";
import { isNotFound } from "../../api/client";
import type { Timeline } from "../../api/types";
import type { Connection } from "../../api/stream";
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
  connection: Connection;
}

/** Everything shows the moment under one cursor. */
function Shown({ place, timeline, connection }: ShownProps) {
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
      <Summary timeline={timeline} connection={connection} />
      <div className="execution-top">
        <NetPane timeline={timeline} seq={seq} step={step} onSelect={select} />
        <Inspector timeline={timeline} cursor={cursor} step={step} onSelect={select} />
      </div>
      <Scrubber timeline={timeline} cursor={cursor} />
      <section className={`execution-bottom card shows-${tab}`} aria-label="Log" style={{ "--rows": timeline.steps.length } as CSSProperties}>
        <Tabs
          label="The log"
          chosen={tab}
          onChoose={(name) => navigate(changed(place, { tab: name === "timeline" ? null : name }), { replace: true })}
          tabs={[
            { id: "timeline", label: "Timeline", body: <Gantt timeline={timeline} cursor={cursor} selected={step} onSelect={select} /> },
            { id: "events", label: "Events", count: timeline.seq.toLocaleString(), body: <Events timeline={timeline} cursor={cursor} selected={step} /> },
          ]}
        />
      </section>
    </div>
  );
}

export default function ExecutionPage({ place, values }: PageProps) {
  const id = values.id ?? "";
  const { timeline, error, connection, reload } = useTimeline(id);
  if (timeline === null && isNotFound(error)) {
    return (
      <Empty whole title="There is no such execution" action={<Link className="button" to="/executions">All executions</Link>}>
        <code>{id}</code>
      </Empty>
    );
  }
  if (timeline === null) {
    return (
      <div className="execution">
        {error === undefined ? <><Skeleton height={56} /><Skeleton height={420} /><Skeleton height={48} /><Skeleton height={220} /></> : <Failed error={error} onRetry={reload} />}
      </div>
    );
  }
  return <Shown key={id} place={place} timeline={timeline} connection={connection} />;
}
