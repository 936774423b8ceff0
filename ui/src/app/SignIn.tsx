import { type SubmitEvent, useState } from "react";
import { request } from "../api/client";
import { errorMessage } from "../api/problem";
import { useResource } from "../api/useResource";
import { Button } from "../design/Button";
import { TextField } from "../design/Field";
import { ShellCommand } from "../design/ShellCommand";
import { signIn } from "./session";

const TOKEN = /^noetl_[!-~]{1,250}$/; // the server refuses anything else
const INVALID_TOKEN = "This is not a NoETL token. A token starts with noetl_ and has no spaces. Copy all of it.";
const REFUSED = "sign-in"; // the query parameter with which the server explains a refused sign-in
const REFUSALS: Record<string, string> = {
  state: "This sign-in took too long, or another one was started in this browser. Try again.",
  denied: "The provider did not sign you in.",
  provider: "The provider does not answer as expected. Try again. The log of the server contains the reason.",
  identity: "The answer of the provider was not valid. The log of the server contains the reason.",
  "no-role": "You have no access: none of your groups has a role here. Ask the operator of this server.",
  busy: "Too many people are signing in. Try again in a moment.",
};

interface Methods {
  open: boolean;
  oidc: string | null;
}

/** The page after the sign-in: the current one, without the message about a refused sign-in. */
function currentPage(): string {
  const url = new URL(window.location.href);
  url.searchParams.delete(REFUSED);
  return url.pathname + url.search;
}

/** Signs in with the provider of the server, or with a token. The page keeps neither. */
export function SignIn({ error }: { error: unknown }) {
  const methods = useResource<Methods>("session", (signal) => request("/session", { signal, signIn: true }));
  const refused = new URLSearchParams(window.location.search).get(REFUSED);
  // Show the page only when its parts are known: a button that appears later would move the others.
  if (methods.loading) return null;
  const provider = methods.data?.oidc ?? null;
  return (
    <main className="sign-in">
      <div className="card padded stack">
        <h1>NoETL</h1>
        {refused !== null && (
          <p className="notice error" role="alert">
            {REFUSALS[refused] ?? "You are not signed in."}
          </p>
        )}
        {provider !== null && (
          <>
            <a className="button primary" href={`/session/oidc?next=${encodeURIComponent(currentPage())}`}>
              Sign in with {provider}
            </a>
            <p className="or">or with a token</p>
          </>
        )}
        <TokenForm error={error} isOnly={provider === null} />
      </div>
    </main>
  );
}

function TokenForm({ error, isOnly }: { error: unknown; isOnly: boolean }) {
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState(error === undefined ? undefined : errorMessage(error));
  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (!TOKEN.test(token.trim())) {
      setWrong(INVALID_TOKEN);
      return;
    }
    setBusy(true);
    signIn(token.trim()).catch((refusal: unknown) => {
      setWrong(errorMessage(refusal));
      setBusy(false);
    });
  };
  return (
    <form className="stack" onSubmit={submit}>
      {isOnly && <p className="soft">This server requires a token. It opens a session for all tabs; the browser does not keep the token.</p>}
      <TextField
        label="Token"
        type="password"
        autoComplete="off"
        autoFocus={isOnly}
        placeholder="noetl_…"
        value={token}
        onChange={(event) => setToken(event.target.value)}
        wrong={wrong}
      />
      <Button variant={isOnly ? "primary" : "normal"} type="submit" disabled={busy || token.trim() === ""}>
        Sign in
      </Button>
      {isOnly && (
        <>
          <p className="soft">No token? Create one on the server:</p>
          <ShellCommand text="noetl token create NAME --scope run" />
        </>
      )}
    </form>
  );
}
