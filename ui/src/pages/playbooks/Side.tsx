import type { Ref } from "react";
import { useMay } from "../../app/session";
import { Empty } from "../../design/Empty";
import { SkeletonRows } from "../../design/Skeleton";
import { Tabs } from "../../design/Tabs";
import type { Saved } from "./Desk";
import { LastRuns } from "./LastRuns";
import { NetPane } from "./NetPane";
import { RunForm } from "./RunForm";
import { Versions } from "./Versions";
import type { Checked } from "./useCheck";

interface SideProps {
  ref: Ref<HTMLElement>;
  tab: string;
  onTab: (tab: string) => void;
  text: string;
  saved: Saved | null;
  checked: Checked;
  line: number; // where the cursor is
  mustSave: boolean;
  onStep: (place: { line: number; column: number }) => void;
  onRun: (workload: Record<string, unknown>) => Promise<void>;
}

/** What stands beside the text: its net, the form to run it, what ran, and what it was before. */
export function Side({ ref, tab, onTab, text, saved, checked, line, mustSave, onStep, onRun }: SideProps) {
  const why = useObstacle(checked, mustSave, saved);
  const never = <Empty title="It is not registered yet">Save it or run it, and it is.</Empty>;
  return (
    <section ref={ref} className="desk-side" aria-label="Net, runs and versions">
      <Tabs
        label="Beside the text"
        chosen={tab}
        onChoose={onTab}
        tabs={[
          {
            id: "net",
            label: "Net",
            body: checked.graph === null ? <Waiting checked={checked} /> : <NetPane graph={checked.graph} line={line} onStep={onStep} />,
          },
          {
            id: "run",
            label: "Run",
            body: (
              <RunForm
                text={text}
                path={saved?.path ?? ""}
                label={mustSave ? "Save and run" : "Run"}
                disabled={why}
                onRun={onRun}
              />
            ),
          },
          { id: "runs", label: "Last runs", body: saved === null ? never : <LastRuns path={saved.path} digest={saved.digest} /> },
          { id: "versions", label: "Versions", body: saved === null ? never : <Versions path={saved.path} latest={saved.version} /> },
        ]}
      />
    </section>
  );
}

function Waiting({ checked }: { checked: Checked }) {
  if (checked.text === null) return <SkeletonRows />;
  return <Empty title="There is no net to draw yet">Mend the errors, and it appears here.</Empty>;
}

/** Why it can not be run as it stands; null: it can. */
function useObstacle(checked: Checked, mustSave: boolean, saved: Saved | null): string | null {
  const mayRun = useMay("run");
  const mayWrite = useMay("write");
  if (!mayRun) return "Your token may not run playbooks: it lacks the scope “run”.";
  if (mustSave && !mayWrite) return "Your token may not register what you changed: it lacks the scope “write”.";
  if (checked.text !== null && !checked.ok) return "It has errors: mend them first.";
  if (saved?.archived === true && !mustSave) return "It is archived: save a new version to open it again.";
  return null;
}
