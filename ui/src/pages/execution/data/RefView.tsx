import { useEffect, useState } from "react";
import { send } from "../../../api/client";
import { Button } from "../../../design/Button";
import { ErrorNotice } from "../../../design/ErrorNotice";
import { Skeleton } from "../../../design/Skeleton";
import { DataView } from "./DataView";
import { type Ref, formatBytes } from "./shapes";

const PREVIEW_BYTES = 256 * 1024;

type Fetched = { kind: "image"; url: string } | { kind: "data"; value: unknown } | { kind: "text"; text: string; cut: boolean };

async function fetched(execution: string, reference: Ref, whole: boolean): Promise<Fetched> {
  const { content_type: type = "application/json", bytes = 0, unpacked_bytes: size = bytes } = reference.meta;
  const cut = !whole && size > PREVIEW_BYTES && !type.startsWith("image/");
  const headers: Record<string, string> = cut ? { Range: `bytes=0-${PREVIEW_BYTES - 1}` } : {};
  const response = await send(`/results/${execution}/${reference.meta.sha256}`, { headers });
  if (type.startsWith("image/")) return { kind: "image", url: URL.createObjectURL(await response.blob()) };
  const text = await response.text();
  if (!cut && type === "application/json") return { kind: "data", value: JSON.parse(text) as unknown };
  return { kind: "text", text, cut };
}

/** A reference to a stored result: its type and size, and on a click its content. */
export function RefView({ execution, reference }: { execution: string; reference: Ref }) {
  const [found, setFound] = useState<Fetched | "reading" | null>(null);
  const [error, setError] = useState<unknown>(undefined);
  const { content_type: type = "application/json", bytes = 0, unpacked_bytes: size = bytes } = reference.meta;
  useEffect(() => {
    if (found === null || found === "reading" || found.kind !== "image") return;
    return () => URL.revokeObjectURL(found.url);
  }, [found]);
  const read = (whole: boolean) => {
    setFound("reading");
    setError(undefined);
    fetched(execution, reference, whole).then(setFound, (problem: unknown) => {
      setFound(null);
      setError(problem);
    });
  };
  return (
    <div className="ref stack">
      <div className="row wrap">
        <span className="mini">ref</span>
        <span className="soft">{type}, {formatBytes(size)}</span>
        {found === null && <Button small onClick={() => read(false)}>Show content</Button>}
      </div>
      {error !== undefined && <ErrorNotice error={error} onRetry={() => read(false)} />}
      {found === "reading" && <Skeleton height={80} />}
      {found !== null && found !== "reading" && (
        <>
          {found.kind === "image" && <img className="ref-image" src={found.url} alt="Result" />}
          {found.kind === "data" && <DataView execution={execution} value={found.value} />}
          {found.kind === "text" && <pre className="data-text" tabIndex={0}>{found.text}</pre>}
          {found.kind === "text" && found.cut && (
            <Button small onClick={() => read(true)}>Showing the first {formatBytes(PREVIEW_BYTES)}. Fetch all {formatBytes(size)}</Button>
          )}
        </>
      )}
    </div>
  );
}
