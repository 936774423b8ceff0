import { type SubmitEvent, useState } from "react";
import { storeToken } from "../api/token";
import { Button } from "../design/Button";
import { ShellCommand } from "../design/ShellCommand";
import { TextField } from "../design/Field";
import { errorMessage } from "../api/problem";

const TOKEN = /^noetl_[!-~]{1,250}$/; // the server refuses anything else
const INVALID_TOKEN = "This is not a NoETL token. A token starts with noetl_ and has no spaces. Copy all of it.";

/** Asks for a token and stores it for this tab. */
export function SignIn({ error }: { error: unknown }) {
  const [token, setToken] = useState("");
  const [wrong, setWrong] = useState(error === undefined ? undefined : errorMessage(error));
  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (TOKEN.test(token.trim())) storeToken(token.trim());
    else setWrong(INVALID_TOKEN);
  };
  return (
    <main className="sign-in">
      <form className="card padded stack" onSubmit={submit}>
        <h1>NoETL</h1>
        <p className="soft">This server requires a token. The browser keeps it until you close this tab.</p>
        <TextField
          label="Token"
          type="password"
          autoComplete="off"
          autoFocus
          placeholder="noetl_…"
          value={token}
          onChange={(event) => setToken(event.target.value)}
          wrong={wrong}
        />
        <Button variant="primary" type="submit" disabled={token.trim() === ""}>
          Sign in
        </Button>
        <p className="soft">No token? Create one on the server:</p>
        <ShellCommand text="noetl token create NAME --scope run" />
      </form>
    </main>
  );
}
