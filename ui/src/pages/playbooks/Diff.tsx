import { useMemo } from "react";
import { EmptyState } from "../../design/EmptyState";
import { type LineKind, parseDiff } from "./diff";

const SIGNS: Record<LineKind, string> = { added: "+", removed: "−", same: "", file: "", hunk: "", note: "" };
const PREFIXES: Partial<Record<LineKind, string>> = { added: "added: ", removed: "removed: " };

/** The changes between two versions, marked with colours and signs, so that colour is not needed to read them. */
export function Diff({ text }: { text: string }) {
  const lines = useMemo(() => parseDiff(text).filter((each) => each.kind !== "file"), [text]);
  if (lines.length === 0) return <EmptyState title="No differences" />;
  return (
    <div className="diff" tabIndex={0} role="region" aria-label="Changes">
      <table>
        <tbody>
          {lines.map((line, index) => (
            <tr key={index} className={line.kind}>
              <td className="number">{line.before}</td>
              <td className="number">{line.after}</td>
              <td className="sign" aria-hidden="true">{SIGNS[line.kind]}</td>
              <td className="text">
                {PREFIXES[line.kind] !== undefined && <span className="visually-hidden">{PREFIXES[line.kind]}</span>}
                {line.text}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
