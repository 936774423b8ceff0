import { Link } from "../../app/router";

const SHOWN = 3;

interface LabelsProps {
  labels: Readonly<Record<string, string>> | undefined;
  most?: number; // of them are shown
}

export const labelText = (key: string, value: string): string => (value === "" ? key : `${key}=${value}`);

/** The labels of an execution. Each one leads to the executions that have it. */
export function Labels({ labels = {}, most = SHOWN }: LabelsProps) {
  const entries = Object.entries(labels);
  if (entries.length === 0) return null;
  const hidden = entries.slice(most);
  return (
    <span className="labels" role="group" aria-label="Labels">
      {entries.slice(0, most).map(([key, value]) => (
        <Link key={key} className="label-chip cut" to={`/executions?label=${encodeURIComponent(`${key}=${value}`)}`} title={`Executions with ${labelText(key, value)}`}>
          {labelText(key, value)}
        </Link>
      ))}
      {hidden.length > 0 && <span className="faint" title={hidden.map(([key, value]) => labelText(key, value)).join(", ")}>+{hidden.length}</span>}
    </span>
  );
}
