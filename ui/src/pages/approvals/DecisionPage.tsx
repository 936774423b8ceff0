import { useState } from "react";
import { get, post } from "../../api/client";
import { errorMessage } from "../../api/problem";
import type { Decision, DecisionList, Head } from "../../api/types";
import { useInterval } from "../../api/useInterval";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { useHasScope } from "../../app/session";
import { Badge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { TextField } from "../../design/Field";
import { ShellCommand } from "../../design/ShellCommand";
import { SkeletonRows } from "../../design/Skeleton";
import { wholeTime } from "../../design/time";
import { toast } from "../../design/toasts";
import type { PageProps } from "../../routes";
import { InputField } from "../playbooks/RunForm";
import { type Written, declaredInputs, readInputs } from "../playbooks/workload";
import "./approvals.css";
import { DataView } from "./DataView";

const RELOAD_MS = 5_000;

/** One decision: what is asked comes first, then the form and the two buttons. */
export default function DecisionPage({ location, values }: PageProps) {
  const id = values.id ?? "";
  const frame = location.query.get("frame");
  const head = useResource<Head>(`head ${id}`, (signal) => get(`/executions/${id}/head`, {}, signal));
  const found = useResource<DecisionList>(`decisions ${id}`, (signal) => get(`/executions/${id}/decisions`, {}, signal));
  useInterval(RELOAD_MS, found.reload); // someone else may decide meanwhile
  const error = found.error ?? head.error;
  if (error !== undefined && found.data === undefined) return <div className="page"><ErrorNotice error={error} onRetry={found.reload} /></div>;
  if (found.data === undefined || head.data === undefined) return <div className="page"><SkeletonRows /></div>;
  const of = found.data.items.filter((each) => frame === null || each.frame === frame);
  // A step may ask again: the last question counts.
  const decision = of.findLast((each) => each.status === "open") ?? of.at(-1);
  if (decision === undefined) {
    return (
      <EmptyState fullPage title="There is no such question">
        The execution has not asked this question yet. <Link to={`/executions/${id}`}>Open the execution</Link>
      </EmptyState>
    );
  }
  return (
    <div className="page decision">
      <p className="soft"><Link to="/approvals">Approvals</Link> / <Link to={`/executions/${id}`}>{head.data.path}</Link> / <code>{decision.frame}</code></p>
      <h1>{decision.title || `${head.data.path} waits for the signal ${decision.signal}`}</h1>
      {decision.text !== "" && <p className="decision-text">{decision.text}</p>}
      {decision.data !== null && decision.data !== undefined && <DataView data={decision.data} />}
      {decision.status === "open" ? (
        <Answer key={decision.frame} id={id} decision={decision} onDecided={found.reload} />
      ) : (
        <Decided decision={decision} />
      )}
    </div>
  );
}

function Decided({ decision }: { decision: Decision }) {
  const { status, by, decided_at: at, answer } = decision;
  const time = at == null ? "" : wholeTime(at);
  if (status === "expired") {
    return <p className="notice" role="status">No person has decided: the step ended without an answer, {time}.</p>;
  }
  const approved = typeof answer === "object" && answer !== null && "approved" in answer ? answer.approved : undefined;
  return (
    <section className="card padded stack" aria-label="Decision">
      <p role="status">
        {approved === true && <Badge tone="ok">approved</Badge>}
        {approved === false && <Badge tone="error">rejected</Badge>}
        {approved !== true && approved !== false && <Badge>answered</Badge>} by <b>{by ?? "unknown"}</b>, {time}
      </p>
      {answer !== null && answer !== undefined && <DataView data={answer} />}
    </section>
  );
}

interface AnswerProps {
  id: string;
  decision: Decision;
  onDecided: () => void;
}

function Answer({ id, decision, onDecided }: AnswerProps) {
  const canRun = useHasScope("run");
  const inputs = declaredInputs(decision.form ?? {});
  const [written, setWritten] = useState<Written>({});
  const [comment, setComment] = useState("");
  const [sending, setSending] = useState(false);
  const [refused, setRefused] = useState<string | null>(null);
  const { workload: fields, wrong } = readInputs(inputs, written);
  const dataOf = (approved: boolean) => ({ ...(approved ? fields : {}), approved, ...(comment.trim() === "" ? {} : { comment: comment.trim() }) });
  const body = (approved: boolean) => ({ name: decision.signal, frame: decision.frame, data: dataOf(approved) });
  const decide = async (approved: boolean) => {
    setSending(true);
    setRefused(null);
    try {
      await post(`/executions/${id}/signal`, body(approved));
      toast(approved ? "Approved" : "Rejected");
      onDecided();
    } catch (error) {
      setRefused(errorMessage(error));
      setSending(false);
    }
  };
  if (!canRun) return <p className="notice waiting">Your role does not permit decisions: it lacks the scope <code>run</code>.</p>;
  return (
    <section className="stack" aria-label="Your decision">
      {inputs.map((each) => (
        <InputField
          key={each.name}
          input={each}
          value={written[each.name] ?? each.written}
          wrong={each.name in written ? wrong[each.name] : undefined}
          onChange={(value) => setWritten((old) => ({ ...old, [each.name]: value }))}
        />
      ))}
      <TextField label="Comment" hint="Optional. It is part of the answer." value={comment} onChange={(event) => setComment(event.target.value)} />
      {refused !== null && <p className="notice error" role="alert">{refused}</p>}
      <div className="row wrap">
        <Button variant="primary" disabled={sending || Object.keys(wrong).length > 0} onClick={() => void decide(true)}>Approve</Button>
        <Button variant="danger" disabled={sending} onClick={() => void decide(false)}>Reject</Button>
      </div>
      <details className="same-by-command">
        <summary>Approve by a command or a request</summary>
        <div className="stack">
          <ShellCommand text={`noetl signal ${id} ${quoted(decision.signal)} --frame ${quoted(decision.frame)} --data ${quoted(JSON.stringify(dataOf(true)))}`} />
          <ShellCommand text={`curl -X POST ${window.location.origin}/executions/${id}/signal -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body(true)))}`} />
          <ShellCommand text={window.location.href} />
        </div>
      </details>
    </section>
  );
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
