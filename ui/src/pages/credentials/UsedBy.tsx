import { get } from "../../api/client";
import type { CredentialUses } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { Dialog } from "../../design/Dialog";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { playbookLink } from "../playbooks/links";

/** The playbooks whose keychain names a credential. */
export function UsedBy({ name, onClose }: { name: string; onClose: () => void }) {
  const uses = useResource<CredentialUses>(name, (signal) => get("/playbooks/uses", { credential: name }, signal));
  return (
    <Dialog title={`Playbooks that use ${name}`} onClose={onClose}>
      {uses.error !== undefined && <ErrorNotice error={uses.error} onRetry={uses.reload} />}
      {uses.data === undefined && uses.error === undefined && <SkeletonRows rows={3} />}
      {uses.data?.items.length === 0 && <p>No current version of a playbook names it in its keychain.</p>}
      {uses.data !== undefined && uses.data.items.length > 0 && (
        <ul>{uses.data.items.map(({ path }) => <li key={path}><Link to={playbookLink(path)}>{path}</Link></li>)}</ul>
      )}
      {uses.data?.complete === false && <p className="soft">Only the first 1,000 playbooks were searched.</p>}
    </Dialog>
  );
}
