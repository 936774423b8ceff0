import type { Change } from "../../api/types";
import { shorten } from "./data/shapes";

const SHOWN_MAX = 50;

/** The changes that a fact made to ctx: old and new values. */
export function Changes({ changes }: { changes: readonly Change[] }) {
  return (
    <section>
      <h3 className="label">Changed in ctx</h3>
      <ul className="changes">
        {changes.slice(0, SHOWN_MAX).map(({ path, before, after }) => (
          <li key={path}>
            <code>{path}</code>
            {before !== undefined && <del>{shorten(before, 160)}</del>}
            {after !== undefined && <ins>{shorten(after, 160)}</ins>}
          </li>
        ))}
        {changes.length > SHOWN_MAX && <li className="faint">{changes.length - SHOWN_MAX} more</li>}
      </ul>
    </section>
  );
}
