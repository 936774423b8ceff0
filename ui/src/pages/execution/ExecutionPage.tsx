import { type CSSProperties, useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { get, isNotFound } from "../../api/client";
import { heldAs, isLive, onCommand } from "../../api/commands";
import type { Head, Timeline } from "../../api/types";
import type { Connection } from "../../api/stream";
import { useResource } from "../../api/useResource";
import { Link, type RouteLocation, withQuery, navigate } from "../../app/router";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { loadable } from "../../design/loadable";
import { Skeleton, SkeletonRows } from "../../design/Skeleton";
import { Tabs } from "../../design/Tabs";
import type { PageProps } from "../../routes";
import { Events } from "./Events";
import { Gantt } from "./Gantt";
import { Inspector } from "./Inspector";
import { NetPane } from "./NetPane";
import { Scrubber } from "./Scrubber";
import { Splitter, useSplit } from "./Splitter";
import { Summary } from "./Summary";
import "./execution.css";
import "./data/data.css";
import { ExecutionContext } from "./data/execution";
import { hasFamily } from "./family";
import { useCursor } from "./useCursor";
import { useTimeline } from "./useTimeline";

const Iterations = loadable(async () => (await import("./iterations/Iterations")).default, <SkeletonRows rows={3} />);
const Children = loadable(async () => (await import("./children/Children")).default, <SkeletonRows rows={3} />);
const Debug = loadable(async () => (await import("./debug/Debug")).default, <SkeletonRows rows={3} />);
const Logs = loadable(async () => (await import("./logs/Logs")).default, <SkeletonRows rows={3} />);

interface ExecutionViewProps {
  location: RouteLocation;
  timeline: Timeline;
  loaded: boolean; // false: the timeline contains only what is in the head
  owned: boolean; // false: no process runs it
  connection: Connection;
  labels: Head["labels"];
}

/** A timeline from the head only, to show before the server has read the whole log. */
function timelineFromHead(head: Head): Timeline {
  return {
    ...head, by: null, counts: [], steps: [], arcs: [], waiting: [], signals: [], marks: [], marks_left_out: 0,
    clock: [], writes: [], kinds: {},
  };
}

function LoadingLog({ facts }: { facts: number }) {
  return <EmptyState title={`Loading ${facts.toLocaleString()} facts`} />;
}

/** All parts of the page show the state at one cursor. */
function ExecutionView({ location, timeline, loaded, owned, connection, labels }: ExecutionViewProps) {
  const cursor = useCursor(location, timeline.seq);
  const seq = useDeferredValue(cursor.seq); // The slider moves at once; the rest of the page follows.
  const step = location.query.get("step");
  const tab = location.query.get("tab") ?? "timeline";
  const loops = useMemo(() => timeline.steps.flatMap((line) => line.runs).filter((run) => run.iterations != null), [timeline]);
  const net = useSplit("net", 60);
  const log = useSplit("log", 0);
  const now = useRef(location);
  useEffect(() => {
    now.current = location;
  }, [location]);
  const select = useCallback((name: string) => {
    const same = now.current.query.get("step") === name;
    navigate(withQuery(now.current, { step: same ? null : name }), { replace: true });
  }, []);
  return (
    <ExecutionContext value={timeline.execution_id}>
    <div className={`execution${log.value > 0 ? " split" : ""}`} style={{ "--top": `${log.value}%` } as CSSProperties}>
      <Summary timeline={timeline} connection={connection} owned={owned} at={cursor.live ? null : seq} labels={labels} />
      <div className="execution-top" style={{ "--net": `${net.value}%` } as CSSProperties}>
        <NetPane timeline={timeline} loaded={loaded} seq={seq} step={step} onSelect={select} />
        <Splitter label="Width of the net" direction="horizontal" split={net} least={25} most={75} />
        <Inspector timeline={timeline} loaded={loaded} cursor={cursor} step={step} onSelect={select} />
      </div>
      {loaded ? <Scrubber timeline={timeline} cursor={cursor} /> : <Skeleton height={40} />}
      <Splitter label="Height of the log" direction="vertical" split={{ ...log, value: log.value || 60 }} least={30} most={85} />
      <section className={`execution-bottom card shows-${tab}`} aria-label="Log" style={{ "--rows": timeline.steps.length } as CSSProperties}>
        <Tabs
          label="Log"
          chosen={tab}
          onChoose={(name) => navigate(withQuery(location, { tab: name === "timeline" ? null : name }), { replace: true })}
          tabs={[
            { id: "timeline", label: "Timeline", body: !loaded ? <LoadingLog facts={timeline.seq} /> : <Gantt timeline={timeline} cursor={cursor} selected={step} onSelect={select} /> },
            { id: "events", label: "Events", count: timeline.seq.toLocaleString(), body: !loaded ? <LoadingLog facts={timeline.seq} /> : <Events timeline={timeline} cursor={cursor} selected={step} /> },
            ...(loops.length === 0 ? [] : [{ id: "iterations", label: "Iterations", body: <Iterations location={location} timeline={timeline} runs={loops} step={step} /> }]),
            ...(hasFamily(timeline) ? [{ id: "children", label: "Children", body: <Children timeline={timeline} /> }] : []),
            ...(isLive(timeline.status) ? [{ id: "debug", label: "Debug", body: <Debug timeline={timeline} step={step} /> }] : []),
            { id: "logs", label: "Logs", body: <Logs location={location} timeline={timeline} /> },
          ]}
        />
      </section>
    </div>
    </ExecutionContext>
  );
}

/** The number of commands sent from this page: each one can change the state of the execution. */
function useCommandCount(id: string): number {
  const [commandCount, setCommandCount] = useState(0);
  useEffect(() => onCommand((commanded) => {
    if (commanded === id) setCommandCount((before) => before + 1);
  }), [id]);
  return commandCount;
}

export default function ExecutionPage({ location, values }: PageProps) {
  const id = values.id ?? "";
  const { timeline, error, connection, reload } = useTimeline(id);
  const commandCount = useCommandCount(id);
  const { data: head } = useResource<Head>(`${id} ${String(commandCount)}`, (signal) => get(`/executions/${id}/head`, {}, signal));
  const preview = useMemo(() => (head === undefined || error !== undefined ? null : timelineFromHead(head)), [head, error]);
  if (timeline === null && isNotFound(error)) {
    return (
      <EmptyState fullPage title="Execution not found" action={<Link className="button" to="/executions">All executions</Link>}>
        <code>{id}</code>
      </EmptyState>
    );
  }
  const shown = timeline ?? preview;
  if (shown === null) {
    return (
      <div className="execution">
        {error === undefined ? <><Skeleton height={56} /><Skeleton height={420} /><Skeleton height={48} /><Skeleton height={220} /></> : <ErrorNotice error={error} onRetry={reload} />}
      </div>
    );
  }
  // A longer log means that a process runs it.
  const owned = timeline !== null ? heldAs(timeline) !== "interrupted" : head === undefined || head.owner_alive || shown.seq > head.seq;
  return <ExecutionView key={id} location={location} timeline={shown} loaded={timeline !== null} owned={owned} connection={connection} labels={head?.labels} />;
}
