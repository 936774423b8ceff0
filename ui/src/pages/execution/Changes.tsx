import type { Change } from "../../api/types";
import { brief } from "./data/shapes";

const SHOWN_MAX = 50;

/** What a fact has changed in ctx: before and after. */
export function Changes({ changes }: { changes: readonly Change[] }) {
  return (
    <section>
      <h3 className="label">Changed in ctx</h3>
      <ul className="changes">
        {changes.slice(0, SHOWN_MAX).map(({ path, before, after }) => (
          <li key={path}>
            <code>{path}</code>
            {before !== undefined && <del>{brief(before, 160)}</del>}
            {after !== undefined && <ins>{brief(after, 160)}</ins>}
          </li>
        ))}
        {changes.length > SHOWN_MAX && <li className="faint">{changes.length - SHOWN_MAX} more</li>}
      </ul>
    </section>
  );
}
