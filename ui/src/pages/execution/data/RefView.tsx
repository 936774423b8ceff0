import { useEffect, useState } from "react";
import { send } from "../../../api/client";
import { download } from "../../../api/download";
import { Button } from "../../../design/Button";
import { ErrorNotice } from "../../../design/ErrorNotice";
import { Skeleton } from "../../../design/Skeleton";
import { RowsView } from "./RowsView";
import { type LoopRef, type Ref, formatBytes, isLoopRef } from "./shapes";

const PREVIEW_BYTES = 256 * 1024;

type Fetched = { kind: "image"; url: string } | { kind: "text"; text: string; cut: boolean };

async function fetched(execution: string, reference: Ref): Promise<Fetched> {
  const { content_type: type = "", bytes = 0, unpacked_bytes: size = bytes } = reference.meta;
  const cut = size > PREVIEW_BYTES && !type.startsWith("image/");
  const headers: Record<string, string> = cut ? { Range: `bytes=0-${PREVIEW_BYTES - 1}` } : {};
  const response = await send(`/results/${execution}/${reference.meta.sha256}`, { headers });
  if (type.startsWith("image/")) return { kind: "image", url: URL.createObjectURL(await response.blob()) };
  return { kind: "text", text: await response.text(), cut };
}

/** A stored image or text: the beginning of a long one, and the whole as a file. */
function StoredFile({ execution, reference }: { execution: string; reference: Ref }) {
  const [found, setFound] = useState<Fetched | null>(null);
  const [error, setError] = useState<unknown>(undefined);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    let wanted = true;
    fetched(execution, reference).then(
      (content) => wanted && setFound(content),
      (problem: unknown) => wanted && setError(problem),
    );
    return () => {
      wanted = false;
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the digest identifies the content
  }, [execution, reference.meta.sha256, attempt]);
  useEffect(() => {
    if (found?.kind !== "image") return;
    return () => URL.revokeObjectURL(found.url);
  }, [found]);
  const retry = () => {
    setError(undefined);
    setAttempt(attempt + 1);
  };
  if (error !== undefined) return <ErrorNotice error={error} onRetry={retry} />;
  if (found === null) return <Skeleton height={80} />;
  return (
    <>
      {found.kind === "image" && <img className="ref-image" src={found.url} alt="Result" />}
      {found.kind === "text" && <pre className="data-text" tabIndex={0}>{found.text}</pre>}
      <span className="row wrap">
        {found.kind === "text" && found.cut && <span className="soft">The first {formatBytes(PREVIEW_BYTES)}</span>}
        <Button small onClick={() => void download(`/results/${execution}/${reference.meta.sha256}`, {}, reference.meta.sha256)}>Download</Button>
      </span>
    </>
  );
}

function describe(reference: Ref | LoopRef): string {
  if (isLoopRef(reference)) return `results of ${reference.locator.run}`;
  const { content_type: type = "application/json", bytes = 0, unpacked_bytes: size = bytes } = reference.meta;
  return `${type}, ${formatBytes(size)}`;
}

function Content({ execution, reference }: { execution: string; reference: Ref | LoopRef }) {
  if (isLoopRef(reference)) return <RowsView execution={reference.locator.execution_id} run={reference.locator.run} />;
  const { content_type: type = "application/json", sha256 } = reference.meta;
  const isJson = type.startsWith("application/json") || type.includes("+json");
  return isJson ? <RowsView execution={execution} digest={sha256} /> : <StoredFile execution={execution} reference={reference} />;
}

/** A reference to a stored result: its type and size, and on a click its content. */
export function RefView({ execution, reference }: { execution: string; reference: Ref | LoopRef }) {
  const [open, setOpen] = useState(false);
  return (
    <div className="ref stack">
      <div className="row wrap">
        <span className="mini">ref</span>
        <span className="soft">{describe(reference)}</span>
        <Button small aria-expanded={open} onClick={() => setOpen(!open)}>{open ? "Hide content" : "Show content"}</Button>
      </div>
      {open && <Content execution={execution} reference={reference} />}
    </div>
  );
}
