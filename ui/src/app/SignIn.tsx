import { type SubmitEvent, useState } from "react";
import { holdToken } from "../api/token";
import { Button } from "../design/Button";
import { Command } from "../design/Command";
import { TextField } from "../design/Field";
import { inWords } from "../api/problem";

const TOKEN = /^noetl_[!-~]{1,250}$/; // the server would not read anything else, and a browser not send all of it
const NO_TOKEN = "This is no token of NoETL. A token begins with noetl_ and has no spaces: copy all of it.";

/** Asks for a token. It is kept for this tab only. */
export function SignIn({ error }: { error: unknown }) {
  const [token, setToken] = useState("");
  const [wrong, setWrong] = useState(error === undefined ? undefined : inWords(error));
  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (TOKEN.test(token.trim())) holdToken(token.trim());
    else setWrong(NO_TOKEN);
  };
  return (
    <main className="sign-in">
      <form className="card padded stack" onSubmit={submit}>
        <h1>NoETL</h1>
        <p className="soft">This server asks for a token. It is kept for this tab and goes with it.</p>
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
        <Button look="primary" type="submit" disabled={token.trim() === ""}>
          Go on
        </Button>
        <p className="soft">No token? On the server’s machine:</p>
        <Command text="noetl token create NAME --scope run" />
      </form>
    </main>
  );
}
