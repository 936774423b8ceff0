import { type SubmitEvent, type Ref, useState } from "react";
import { get } from "../api/client";
import { inWords } from "../api/problem";
import { toast } from "../design/toasts";
import { navigate } from "./router";

// What an id of an execution begins with: UUIDv7, hexadecimal.
const ID = /^[0-9a-f]{4,8}(-[0-9a-f-]*)?$/i;

async function go(words: string): Promise<void> {
  if (ID.test(words)) {
    const { ids } = await get<{ ids: string[] }>("/executions/find", { prefix: words });
    const [only] = ids;
    if (ids.length === 1 && only !== undefined) {
      navigate(`/executions/${only}`);
      return;
    }
  }
  navigate(`/executions?path=${encodeURIComponent(words)}`);
}

/** An execution by its id or the beginning of it, or the executions of a playbook. */
export function Search({ field }: { field: Ref<HTMLInputElement> }) {
  const [words, setWords] = useState("");
  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (words.trim() === "") return;
    go(words.trim()).then(
      () => setWords(""),
      (error: unknown) => toast(inWords(error), "error"),
    );
  };
  return (
    <form className="search" role="search" onSubmit={submit}>
      <input
        ref={field}
        className="input"
        type="search"
        aria-label="Search: an execution’s id or a playbook’s path"
        placeholder="Id or playbook path"
        value={words}
        onChange={(event) => setWords(event.target.value)}
      />
      <kbd aria-hidden="true">/</kbd>
    </form>
  );
}
