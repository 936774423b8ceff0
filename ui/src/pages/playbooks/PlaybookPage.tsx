import { get, isNotFound } from "../../api/client";
import type { Playbook } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import type { PageProps } from "../../routes";
import { PlaybookEditor } from "./PlaybookEditor";
import { TEMPLATES } from "./templates";

/** `?path=&version=` opens a registered playbook; `?new=` opens a template. */
export default function PlaybookPage({ location }: PageProps) {
  const path = location.query.get("path");
  const version = location.query.get("version");
  const key = path === null ? null : `playbook ${path} ${version ?? ""}`;
  const found = useResource<Playbook>(key, (signal) => get("/playbooks/one", { path, version }, signal));
  if (path === null) {
    const id = location.query.get("new");
    const template = TEMPLATES.find((each) => each.id === id) ?? TEMPLATES[0];
    return <PlaybookEditor key={`new ${template?.id ?? ""}`} name={`new ${template?.id ?? ""}`} saved={null} text={template?.text ?? ""} />;
  }
  if (isNotFound(found.error)) {
    return (
      <EmptyState fullPage title="Playbook not found" action={<Link to="/playbooks">All playbooks</Link>}>
        <code>{path}</code> is not in the catalog{version !== null && `, or has no version ${version}`}.
      </EmptyState>
    );
  }
  if (found.error !== undefined) return <div className="page"><ErrorNotice error={found.error} onRetry={found.reload} /></div>;
  if (found.data === undefined) return <div className="page"><SkeletonRows rows={14} /></div>;
  return <PlaybookEditor key={key} name={`${path}@${version ?? ""}`} saved={found.data} text={found.data.text} />;
}
