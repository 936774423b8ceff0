import type { Ref } from "react";
import type { Playbook } from "../../api/types";
import { useHasScope } from "../../app/session";
import { EmptyState } from "../../design/EmptyState";
import { SkeletonRows } from "../../design/Skeleton";
import { Tabs } from "../../design/Tabs";
import { RecentExecutions } from "./RecentExecutions";
import { NetPane } from "./NetPane";
import { loadable } from "../../design/loadable";
import { type OnRun, RunForm } from "./RunForm";
import { Versions } from "./Versions";
import type { Checked } from "./useCheck";

const LOADING = <SkeletonRows />;
const TestsPane = loadable(async () => (await import("../trials/TestsPane")).TestsPane, LOADING);
const WhatIfPane = loadable(async () => (await import("../trials/WhatIfPane")).WhatIfPane, LOADING);

interface SidePanelProps {
  ref: Ref<HTMLElement>;
  tab: string;
  onTab: (tab: string) => void;
  text: string;
  saved: Playbook | null;
  checked: Checked;
  line: number; // of the cursor
  mustSave: boolean;
  onStep: (place: { line: number; column: number }) => void;
  onRun: OnRun;
}

/** The panel next to the text: the net, the form to run it, its executions and its versions. */
export function SidePanel({ ref, tab, onTab, text, saved, checked, line, mustSave, onStep, onRun }: SidePanelProps) {
  const obstacle = useRunObstacle(checked, mustSave, saved);
  const notRegistered = <EmptyState title="Not registered yet">Save or run the playbook to register it.</EmptyState>;
  return (
    <section ref={ref} className="playbook-editor-side" aria-label="Net, executions and versions">
      <Tabs
        label="Playbook details"
        chosen={tab}
        onChoose={onTab}
        tabs={[
          {
            id: "net",
            label: "Net",
            body: checked.graph === null ? <NoNet checked={checked} /> : <NetPane graph={checked.graph} line={line} onStep={onStep} />,
          },
          {
            id: "run",
            label: "Run",
            body: (
              <RunForm
                text={text}
                path={saved?.path ?? ""}
                label={mustSave ? "Save and run" : "Run"}
                disabled={obstacle}
                onRun={onRun}
              />
            ),
          },
          {
            id: "tests",
            label: "Tests",
            body: <TestsPane name={saved?.path ?? ""} text={text} call={firstCall(checked)} onProblem={(line, column) => onStep({ line, column })} />,
          },
          { id: "what-if", label: "What if", body: saved === null ? notRegistered : <WhatIfPane path={saved.path} text={text} /> },
          { id: "runs", label: "Executions", body: saved === null ? notRegistered : <RecentExecutions path={saved.path} digest={saved.digest} /> },
          { id: "versions", label: "Versions", body: saved === null ? notRegistered : <Versions path={saved.path} latest={saved.version} /> },
        ]}
      />
    </section>
  );
}

/** A step for the first test to name: one that calls something. */
function firstCall({ graph }: Checked): string {
  const steps = graph?.steps.filter((step) => step.role === "step") ?? [];
  return (steps.find((step) => step.kinds.some((kind) => kind !== "noop")) ?? steps[0])?.name ?? "start";
}

function NoNet({ checked }: { checked: Checked }) {
  if (checked.text === null) return <SkeletonRows />;
  return <EmptyState title="No net yet">Fix the errors to see the net.</EmptyState>;
}

/** The reason why the playbook cannot run now; null: it can. */
function useRunObstacle(checked: Checked, mustSave: boolean, saved: Playbook | null): string | null {
  const canRun = useHasScope("run");
  const canWrite = useHasScope("write");
  if (!canRun) return "Your token cannot run playbooks: it lacks the scope “run”.";
  if (mustSave && !canWrite) return "Your token cannot register your changes: it lacks the scope “write”.";
  if (checked.text !== null && !checked.ok) return "The playbook has errors. Fix them first.";
  if (saved?.archived === true && !mustSave) return "The playbook is archived. Save a new version to restore it.";
  return null;
}
