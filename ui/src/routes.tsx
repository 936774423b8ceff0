/** The pages and their paths. The code of a page is loaded on first use. */

import { type ComponentType, type ReactNode, useEffect } from "react";
import { type RouteLocation, matchPath } from "./app/router";
import { EmptyState } from "./design/EmptyState";
import { SkeletonRows } from "./design/Skeleton";
import { loadable } from "./design/loadable";

export interface PageProps {
  location: RouteLocation;
  values: Record<string, string>; // of the parameters in the pattern: /executions/:id
}

type Module = Promise<{ default: ComponentType<PageProps> }>;

const LOADING = <div className="page"><SkeletonRows /></div>;

function route(pattern: string, title: string, load: () => Module) {
  return { pattern, title, page: loadable(async () => (await load()).default, LOADING) };
}

const ROUTES = [
  route("/executions", "Executions", () => import("./pages/executions/ExecutionsPage")),
  route("/executions/:id", "Execution", () => import("./pages/execution/ExecutionPage")),
  route("/executions/:id/iteration", "Iteration", () => import("./pages/execution/iterations/IterationPage")),
  route("/executions/:id/fork", "Fork", () => import("./pages/execution/fork/ForkPage")),
  route("/executions/:id/compare", "Compare", () => import("./pages/execution/compare/ComparePage")),
  route("/executions/:id/what-if", "What if", () => import("./pages/execution/whatif/WhatIfPage")),
  route("/approvals", "Approvals", () => import("./pages/approvals/ApprovalsPage")),
  route("/approvals/:id", "Approval", () => import("./pages/approvals/DecisionPage")),
  route("/playbooks", "Playbooks", () => import("./pages/playbooks/PlaybooksPage")),
  route("/playbooks/one", "Playbook", () => import("./pages/playbooks/PlaybookPage")),
  route("/playbooks/history", "History", () => import("./pages/playbooks/history/HistoryPage")),
  route("/triggers", "Triggers", () => import("./pages/triggers/TriggersPage")),
  route("/schedule", "Schedule", () => import("./pages/schedule/CalendarPage")),
  route("/saved", "Saved values", () => import("./pages/saved/SavedPage")),
  route("/tools", "Tools", () => import("./pages/tools/ToolsPage")),
  route("/credentials", "Credentials", () => import("./pages/credentials/CredentialsPage")),
  route("/workers", "Workers", () => import("./pages/workers/WorkersPage")),
  route("/limits", "Limits", () => import("./pages/limits/LimitsPage")),
  route("/audit", "Audit", () => import("./pages/audit/AuditPage")),
  route("/health", "Health", () => import("./pages/health/HealthPage")),
];

function matchPage(path: string) {
  for (const each of ROUTES) {
    const values = matchPath(each.pattern, path);
    if (values !== null) return { ...each, values };
  }
  return null;
}

/** Starts to load the code of a page early. An error shows up when the page is rendered. */
export function preload(path: string): void {
  matchPage(path)?.page.preload().catch(() => undefined);
}

export function Page({ location }: { location: RouteLocation }) {
  const match = matchPage(location.path);
  if (match === null) {
    return (
      <EmptyState fullPage title="Page not found">
        <code>{location.path}</code>
      </EmptyState>
    );
  }
  const { page: PageComponent, title, pattern, values } = match;
  return (
    <PageWithTitle title={title}>
      <PageComponent key={pattern} location={location} values={values} />
    </PageWithTitle>
  );
}

function PageWithTitle({ title, children }: { title: string; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · NoETL`;
  }, [title]);
  return children;
}
