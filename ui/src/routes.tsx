/** Which page stands where. Each is loaded when it is first wanted. */

import { type ComponentType, type ReactNode, useEffect } from "react";
import { type Place, matched } from "./app/router";
import { Empty } from "./design/Empty";
import { SkeletonRows } from "./design/Skeleton";
import { loadable } from "./design/loadable";

export interface PageProps {
  place: Place;
  values: Record<string, string>; // of the names in the pattern: /executions/:id
}

type Module = Promise<{ default: ComponentType<PageProps> }>;

const WAITING = <div className="page"><SkeletonRows /></div>;

function route(pattern: string, title: string, load: () => Module) {
  return { pattern, title, page: loadable(async () => (await load()).default, WAITING) };
}

const ROUTES = [
  route("/executions", "Executions", () => import("./pages/executions/ExecutionsPage")),
  route("/executions/:id", "Execution", () => import("./pages/execution/ExecutionPage")),
  route("/playbooks", "Playbooks", () => import("./pages/playbooks/PlaybooksPage")),
  route("/playbooks/one", "Playbook", () => import("./pages/playbooks/PlaybookPage")),
  route("/tools", "Tools", () => import("./pages/tools/ToolsPage")),
  route("/credentials", "Credentials", () => import("./pages/credentials/CredentialsPage")),
  route("/workers", "Workers", () => import("./pages/workers/WorkersPage")),
  route("/health", "Health", () => import("./pages/health/HealthPage")),
];

function found(path: string) {
  for (const each of ROUTES) {
    const values = matched(each.pattern, path);
    if (values !== null) return { ...each, values };
  }
  return null;
}

/** Begins to load a page before it is drawn. What goes wrong is told when it is drawn. */
export function preload(path: string): void {
  found(path)?.page.preload().catch(() => undefined);
}

export function Page({ place }: { place: Place }) {
  const shown = found(place.path);
  if (shown === null) {
    return (
      <Empty whole title="There is no such page">
        <code>{place.path}</code>
      </Empty>
    );
  }
  const { page: Shown, title, pattern, values } = shown;
  return (
    <Titled title={title}>
      <Shown key={pattern} place={place} values={values} />
    </Titled>
  );
}

function Titled({ title, children }: { title: string; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · NoETL`;
  }, [title]);
  return children;
}
