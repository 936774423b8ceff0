import { Fragment } from "react";

/** Words of the server, in which `…` is code. */
export function Words({ text }: { text: string }) {
  return text.split("`").map((part, place) =>
    place % 2 === 0 ? <Fragment key={place}>{part}</Fragment> : <code key={place}>{part}</code>,
  );
}
