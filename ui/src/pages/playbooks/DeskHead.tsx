import type { ReactNode } from "react";
import { Link } from "../../app/router";
import { Badge, type Tone } from "../../design/Badge";
import { type Soundness, soundness } from "../../editor/problems";
import type { Saved } from "./Desk";
import type { Checked } from "./useCheck";

const SOUNDNESS: Record<Soundness, { tone: Tone; says: string; means: string }> = {
  sound: { tone: "ok", says: "Sound", means: "Proved before it runs: every step can be reached, and every token comes to an end" },
  doubtful: { tone: "waiting", says: "Sound with doubts", means: "It can run; what is doubtful about its net is in the list of problems" },
  unsound: { tone: "error", says: "Not sound", means: "Its net can get stuck or run for ever: see the problems" },
  unknown: { tone: "neutral", says: "Soundness unknown", means: "Errors in the text come first" },
};

interface DeskHeadProps {
  saved: Saved | null;
  checked: Checked;
  isFresh: boolean; // the check is of the text that is shown
  isChanged: boolean;
  children: ReactNode;
}

export function DeskHead({ saved, checked, isFresh, isChanged, children }: DeskHeadProps) {
  return (
    <header className="desk-head">
      <div className="grow">
        <nav className="crumbs faint" aria-label="Where this is"><Link to="/playbooks">Playbooks</Link> /</nav>
        <h1 className="row wrap">
          <span className="path">{saved?.path ?? "New playbook"}</span>
          {saved !== null && <span className="version">version {saved.version}</span>}
        </h1>
      </div>
      {saved !== null && isChanged && <Badge tone="waiting">changed</Badge>}
      {saved !== null && !saved.current && <Badge>not the current version</Badge>}
      {saved?.archived === true && <Badge>archived</Badge>}
      <Verdict checked={checked} isFresh={isFresh} />
      {children}
    </header>
  );
}

function Verdict({ checked, isFresh }: { checked: Checked; isFresh: boolean }) {
  if (checked.text === null) return <Badge>checking</Badge>;
  const { tone, says, means } = SOUNDNESS[soundness(checked.problems)];
  const errors = checked.problems.filter((each) => each.severity === "error").length;
  return (
    <span className="row verdict" data-fresh={isFresh} role="status">
      {errors > 0 && <Badge tone="error">{errors} {errors === 1 ? "error" : "errors"}</Badge>}
      <span title={means}><Badge tone={tone}>{says}</Badge></span>
    </span>
  );
}
