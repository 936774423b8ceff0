import type { ReactNode } from "react";
import type { Timeline } from "../../api/types";
import { Link } from "../../app/router";
import { EmptyState } from "../../design/EmptyState";
import { SkeletonRows } from "../../design/Skeleton";
import { FailureView } from "./FailureView";
import { failureOf, useResultFact } from "./useResultFact";

/** What the user can do, by the kind of the failure. */
const SUGGESTIONS: Record<string, ReactNode> = {
  problems: <>The text was not stored. The editor under <Link to="/playbooks">Playbooks</Link> and <code>noetl check</code> show its problems.</>,
  playbook: <Link to="/playbooks">All playbooks</Link>,
  credential: <Link to="/credentials">All credentials</Link>,
};

/** Shown instead of the net: why the execution did not start. */
export function NotStarted({ timeline }: { timeline: Timeline }) {
  const { data } = useResultFact(timeline);
  const failure = failureOf(data);
  return (
    <EmptyState title="Not started">
      {data === undefined && <SkeletonRows rows={1} />}
      {failure !== null && <FailureView {...failure} />}
      {failure !== null && SUGGESTIONS[failure.kind]}
    </EmptyState>
  );
}
