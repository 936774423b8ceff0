import { JsonTree } from "./data/JsonTree";
import { isObject } from "./data/shapes";

interface FailureProps {
  kind: string;
  message: string;
  details?: unknown;
}

export function FailureView({ kind, message, details }: FailureProps) {
  return (
    <div className="notice error">
      <b>{kind}</b>: <span className="failure-message">{message}</span>
      {isObject(details) && Object.keys(details).length > 0 && <JsonTree value={details} level={1} />}
    </div>
  );
}
