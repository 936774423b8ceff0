import { Link } from "../../app/router";
import { Dialog } from "../../design/Dialog";
import { TEMPLATES } from "./templates";

export function NewPlaybook({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="New playbook" onClose={onClose}>
      <ul className="templates">
        {TEMPLATES.map((each) => (
          <li key={each.id}>
            <Link to={`/playbooks/one?new=${each.id}`} onClick={onClose}>
              <strong>{each.title}</strong>
              <span className="soft">{each.description}</span>
            </Link>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
