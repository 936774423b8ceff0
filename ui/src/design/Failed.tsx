import { ApiProblem, Unreachable, inWords } from "../api/problem";
import { Button } from "./Button";

/** What went wrong, in the words of the server, and a way to try again. */
export function Failed({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const code = error instanceof ApiProblem ? error.code : null;
  return (
    <div className="notice error row wrap" role="alert">
      <span className="grow">
        {inWords(error)}
        {error instanceof Unreachable && ". Is it running? It is asked again when you try again."}
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
