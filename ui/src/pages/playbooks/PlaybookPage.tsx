import { get, isNotFound } from "../../api/client";
import type { components } from "../../api/schema";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { Empty } from "../../design/Empty";
import { Failed } from "../../design/Failed";
import { SkeletonRows } from "../../design/Skeleton";
import type { PageProps } from "../../routes";
import { Desk } from "./Desk";
import { TEMPLATES } from "./templates";

type Playbook = components["schemas"]["PlaybookDetails"];

/** `?path=&version=` is one that is registered; `?new=` is a template that is not yet. */
export default function PlaybookPage({ place }: PageProps) {
  const path = place.query.get("path");
  const version = place.query.get("version");
  const key = path === null ? null : `playbook ${path} ${version ?? ""}`;
  const found = useResource<Playbook>(key, (signal) => get("/playbooks/one", { path, version }, signal));
  if (path === null) {
    const id = place.query.get("new");
    const template = TEMPLATES.find((each) => each.id === id) ?? TEMPLATES[0];
    return <Desk key={`new ${template?.id ?? ""}`} name={`new ${template?.id ?? ""}`} saved={null} text={template?.text ?? ""} />;
  }
  if (isNotFound(found.error)) {
    return (
      <Empty whole title="There is no such playbook" action={<Link to="/playbooks">All playbooks</Link>}>
        <code>{path}</code> is not in the catalog{version !== null && `, or has no version ${version}`}.
      </Empty>
    );
  }
  if (found.error !== undefined) return <div className="page"><Failed error={found.error} onRetry={found.reload} /></div>;
  if (found.data === undefined) return <div className="page"><SkeletonRows rows={14} /></div>;
  return <Desk key={key} name={`${path}@${version ?? ""}`} saved={found.data} text={found.data.text} />;
}
