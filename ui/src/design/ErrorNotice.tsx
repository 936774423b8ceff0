import { ApiProblem, Unreachable, errorMessage } from "../api/problem";
import { Button } from "./Button";

/** Shows an error with the message of the server, and a button to try again. */
export function ErrorNotice({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const code = error instanceof ApiProblem ? error.code : null;
  return (
    <div className="notice error row wrap" role="alert">
      <span className="grow">
        {errorMessage(error)}
        {error instanceof Unreachable && ". Check that it is running, then try again."}
        {code !== null && <code className="faint"> {code}</code>}
      </span>
      {onRetry !== undefined && (
        <Button small onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}
