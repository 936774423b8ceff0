import type { ReactNode } from "react";
import type { Playbook } from "../../api/types";
import { Link } from "../../app/router";
import { Badge, type Tone } from "../../design/Badge";
import { type Soundness, soundness } from "../../editor/problems";
import { historyLink } from "./links";
import type { Checked } from "./useCheck";

const SOUNDNESS_LABELS: Record<Soundness, { tone: Tone; label: string; description: string }> = {
  sound: { tone: "ok", label: "Sound", description: "Verified: every step can be reached, and every token reaches an end" },
  doubtful: { tone: "waiting", label: "Sound, with warnings", description: "It can run. The list of problems shows the warnings about its net." },
  unsound: { tone: "error", label: "Not sound", description: "The net can get stuck or run forever. See the list of problems." },
  unknown: { tone: "neutral", label: "Soundness unknown", description: "Fix the errors in the text first." },
};

interface EditorHeaderProps {
  saved: Playbook | null;
  checked: Checked;
  isFresh: boolean; // the check is for the current text
  isChanged: boolean;
  children: ReactNode;
}

export function EditorHeader({ saved, checked, isFresh, isChanged, children }: EditorHeaderProps) {
  return (
    <header className="playbook-editor-header">
      <div className="grow">
        <nav className="crumbs faint" aria-label="Breadcrumb"><Link to="/playbooks">Playbooks</Link> /</nav>
        <h1 className="row wrap">
          <span className="path">{saved?.path ?? "New playbook"}</span>
          {saved !== null && <span className="version">version {saved.version}</span>}
        </h1>
      </div>
      {saved !== null && <Link className="button quiet" to={historyLink(saved.path)}>History</Link>}
      {saved !== null && isChanged && <Badge tone="waiting">unsaved changes</Badge>}
      {saved !== null && !saved.current && <Badge>not the current version</Badge>}
      {saved?.archived === true && <Badge>archived</Badge>}
      <CheckResult checked={checked} isFresh={isFresh} />
      {children}
    </header>
  );
}

function CheckResult({ checked, isFresh }: { checked: Checked; isFresh: boolean }) {
  if (checked.text === null) return <Badge>checking</Badge>;
  const { tone, label, description } = SOUNDNESS_LABELS[soundness(checked.problems)];
  const errors = checked.problems.filter((each) => each.severity === "error").length;
  return (
    <span className="row verdict" data-fresh={isFresh} role="status">
      {errors > 0 && <Badge tone="error">{errors} {errors === 1 ? "error" : "errors"}</Badge>}
      <span title={description}><Badge tone={tone}>{label}</Badge></span>
    </span>
  );
}
