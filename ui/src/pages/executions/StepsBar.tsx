const ORDER = ["ok", "error", "cancelled", "stopped", "running", "scheduled"];

/** Runs of steps by how they stand, as one small bar. */
export function StepsBar({ steps }: { steps: Record<string, number> | null | undefined }) {
  if (steps == null) return <span className="steps-bar" />;
  const parts = Object.entries(steps).sort(([one], [other]) => ORDER.indexOf(one) - ORDER.indexOf(other));
  const words = parts.map(([status, count]) => `${count} ${status}`).join(", ") || "no step has run";
  return (
    <span className="steps-bar" role="img" aria-label={`Steps: ${words}`} title={words}>
      {parts.map(([status, count]) => (
        <i key={status} className={status} style={{ flexGrow: count }} />
      ))}
    </span>
  );
}
