import { useMemo } from "react";
import { Document, isMap, parseDocument } from "yaml";
import { get, post } from "../../api/client";
import { errorMessage } from "../../api/problem";
import type { Started, Timeline } from "../../api/types";
import { useResource } from "../../api/useResource";
import { navigate } from "../../app/router";
import { Dialog } from "../../design/Dialog";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { toast } from "../../design/toasts";
import { type OnRun, RunForm } from "../playbooks/RunForm";
import { isObject } from "./data/shapes";
import { useFact } from "./useFact";

interface PlaybookText {
  text: string;
}

/** The text with these values as the defaults of its workload: the form then begins with them. */
export function withWorkload(text: string, workload: Record<string, unknown>): string {
  const document: Document = parseDocument(text, { logLevel: "silent", strict: false });
  if (document.errors.length > 0 || !isMap(document.contents)) return text;
  for (const [key, value] of Object.entries(workload)) {
    if (!isMap(document.get("workload", true))) document.set("workload", document.createNode({}));
    document.setIn(["workload", key], document.createNode(value));
  }
  return document.toString();
}

/** Starts the same text with the same inputs, or with edited ones. */
export default function RunAgain({ timeline, onClose }: { timeline: Timeline; onClose: () => void }) {
  const { digest, execution_id: id } = timeline;
  const request = useFact(id, 1);
  const text = useResource<PlaybookText>(`text ${digest}`, (signal) => get(`/texts/${digest}`, {}, signal));
  const given = useMemo(() => {
    const workload = request.data?.data.workload;
    return isObject(workload) ? workload : {};
  }, [request.data]);
  const filled = useMemo(() => (text.data === undefined ? "" : withWorkload(text.data.text, given)), [text.data, given]);
  const isStored = request.data?.data.stored === true;
  const run: OnRun = async (changed, secrets) => {
    try {
      const started = await post<Started>("/executions", { digest, workload: { ...given, ...changed }, secrets });
      onClose();
      navigate(`/executions/${started.execution_id}`);
    } catch (error) {
      toast(errorMessage(error), "error");
    }
  };
  return (
    <Dialog title="Run again" onClose={onClose}>
      {text.error !== undefined && <ErrorNotice error={text.error} onRetry={text.reload} />}
      {text.error === undefined && (text.data === undefined || request.data === undefined) && <SkeletonRows rows={4} />}
      {text.data !== undefined && request.data !== undefined && (
        <RunForm
          text={filled} path="" label="Run"
          disabled={isStored ? "Its inputs are large and stored with the execution that called it. Run that one again." : null}
          onRun={run}
        />
      )}
    </Dialog>
  );
}
