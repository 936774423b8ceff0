import { Button } from "../../design/Button";
import { TextWithCode } from "../../design/TextWithCode";
import { editOf } from "../../editor/fixes";
import type { Edit, Problem } from "../../editor/problems";

const SIGNS: Record<Problem["severity"], string> = { error: "✕", warning: "!", info: "i" };

interface ProblemListProps {
  text: string;
  problems: readonly Problem[];
  onReveal: (problem: Problem) => void;
  onApply: (edit: Edit) => void;
}

/** The problems of the text. A click shows the position, and a button applies the fix. Notes are collapsed. */
export function ProblemList({ problems, ...rest }: ProblemListProps) {
  const notes = problems.filter((each) => each.severity === "info");
  const others = problems.filter((each) => each.severity !== "info");
  return (
    <div className="problems">
      {others.length > 0 && <Problems label="Problems" problems={others} {...rest} />}
      {notes.length > 0 && (
        <details>
          <summary>{notes.length === 1 ? "1 note" : `${notes.length} notes`}</summary>
          <Problems label="Notes" problems={notes} {...rest} />
        </details>
      )}
    </div>
  );
}

function Problems({ label, text, problems, onReveal, onApply }: ProblemListProps & { label: string }) {
  return (
    <ul aria-label={label}>
      {problems.map((each) => {
        const edit = editOf(text, each);
        return (
          <li key={`${each.code} ${each.line} ${each.column} ${each.message}`} className={each.severity}>
            <span className="sign" title={each.severity} aria-hidden="true">{SIGNS[each.severity]}</span>
            <button type="button" className="problem" onClick={() => onReveal(each)}>
              <span className="visually-hidden">{each.severity}: </span>
              <span className="numbers faint">{each.line}:{each.column}</span> <TextWithCode text={each.message} />{" "}
              <code className="faint">{each.code}</code>
            </button>
            {edit !== null && (
              <Button small onClick={() => onApply(edit)} aria-label={`Fix: ${edit.insert.trim()}`}>
                Fix: <code className="cut">{edit.insert.trim()}</code>
              </Button>
            )}
            {edit === null && each.fix !== undefined && <pre className="advice soft">{each.fix}</pre>}
          </li>
        );
      })}
    </ul>
  );
}
