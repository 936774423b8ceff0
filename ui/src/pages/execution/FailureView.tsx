import { JsonTree } from "./data/JsonTree";
import { isObject } from "./data/shapes";

interface FailureProps {
  kind: string;
  message: string;
  details?: unknown;
  cause?: unknown;
}

/** A failure; below it the failure that a rule with its own message replaced. */
export function FailureView({ kind, message, details, cause }: FailureProps) {
  const { traceback, ...rest } = isObject(details) ? details : {};
  return (
    <div className="notice error">
      <b>{kind}</b>: <span className="failure-message">{message}</span>
      {typeof traceback === "string" && <pre className="traceback" tabIndex={0} aria-label="Traceback">{traceback}</pre>}
      {Object.keys(rest).length > 0 && <JsonTree value={rest} level={1} />}
      {isObject(cause) && (
        <div>
          Cause: <FailureView kind={String(cause.kind)} message={String(cause.message)} details={cause.details} cause={cause.cause} />
        </div>
      )}
    </div>
  );
}
