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
  return (
    <div className="notice error">
      <b>{kind}</b>: <span className="failure-message">{message}</span>
      {isObject(details) && Object.keys(details).length > 0 && <JsonTree value={details} level={1} />}
      {isObject(cause) && (
        <div>
          Cause: <FailureView kind={String(cause.kind)} message={String(cause.message)} details={cause.details} cause={cause.cause} />
        </div>
      )}
    </div>
  );
}
