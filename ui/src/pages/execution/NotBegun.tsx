import type { ReactNode } from "react";
import type { Timeline } from "../../api/types";
import { Link } from "../../app/router";
import { Empty } from "../../design/Empty";
import { SkeletonRows } from "../../design/Skeleton";
import { FailureView } from "./FailureView";
import { failureIn, useEnding } from "./useEnding";

/** What to do about it, by the kind of the failure. */
const MEND: Record<string, ReactNode> = {
  problems: <>The text was not kept. The editor under <Link to="/playbooks">Playbooks</Link> shows its problems, and so does <code>noetl check</code>.</>,
  playbook: <Link to="/playbooks">All playbooks</Link>,
  credential: <Link to="/credentials">All credentials</Link>,
};

/** In place of the net: why there is nothing to draw. */
export function NotBegun({ timeline }: { timeline: Timeline }) {
  const { data } = useEnding(timeline);
  const failure = failureIn(data);
  return (
    <Empty title="It did not begin">
      {data === undefined && <SkeletonRows rows={1} />}
      {failure !== null && <FailureView {...failure} />}
      {failure !== null && MEND[failure.kind]}
    </Empty>
  );
}
