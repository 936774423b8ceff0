import { type SubmitEvent, type Ref, useState } from "react";
import { get } from "../api/client";
import { errorMessage } from "../api/problem";
import { toast } from "../design/toasts";
import { navigate } from "./router";

// The start of an execution id: a UUIDv7, in hexadecimal.
const ID = /^[0-9a-f]{4,8}(-[0-9a-f-]*)?$/i;

async function openSearchResult(text: string): Promise<void> {
  if (ID.test(text)) {
    const { ids } = await get<{ ids: string[] }>("/executions/find", { prefix: text });
    const [only] = ids;
    if (ids.length === 1 && only !== undefined) {
      navigate(`/executions/${only}`);
      return;
    }
  }
  navigate(`/executions?search=${encodeURIComponent(text)}`);
}

/** Opens the execution whose id starts with the text, or lists the executions in which the text occurs. */
export function Search({ field }: { field: Ref<HTMLInputElement> }) {
  const [text, setText] = useState("");
  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (text.trim() === "") return;
    openSearchResult(text.trim()).then(
      () => setText(""),
      (error: unknown) => toast(errorMessage(error), "error"),
    );
  };
  return (
    <form className="search" role="search" onSubmit={submit}>
      <input
        ref={field}
        className="input"
        type="search"
        aria-label="Search by id, path, label or error"
        placeholder="Id, path, label or error"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <kbd aria-hidden="true">/</kbd>
    </form>
  );
}
