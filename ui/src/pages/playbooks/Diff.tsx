import { useMemo } from "react";
import { Empty } from "../../design/Empty";
import { type LineKind, linesOf } from "./diff";

const SIGNS: Record<LineKind, string> = { added: "+", removed: "−", same: "", file: "", hunk: "", note: "" };
const SAYS: Partial<Record<LineKind, string>> = { added: "added: ", removed: "removed: " };

/** What changed, with colours and signs: nobody has to tell red from green. */
export function Diff({ text }: { text: string }) {
  const lines = useMemo(() => linesOf(text).filter((each) => each.kind !== "file"), [text]);
  if (lines.length === 0) return <Empty title="Nothing differs" />;
  return (
    <div className="diff" tabIndex={0} role="region" aria-label="What changed">
      <table>
        <tbody>
          {lines.map((line, place) => (
            <tr key={place} className={line.kind}>
              <td className="number">{line.before}</td>
              <td className="number">{line.after}</td>
              <td className="sign" aria-hidden="true">{SIGNS[line.kind]}</td>
              <td className="text">
                {SAYS[line.kind] !== undefined && <span className="visually-hidden">{SAYS[line.kind]}</span>}
                {line.text}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
