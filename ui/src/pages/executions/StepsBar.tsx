const ORDER = ["ok", "error", "cancelled", "stopped", "running", "scheduled"];

/** The step runs by status, as a small bar. */
export function StepsBar({ steps }: { steps: Record<string, number> | null | undefined }) {
  if (steps == null) return <span className="steps-bar" />;
  const parts = Object.entries(steps).sort(([one], [other]) => ORDER.indexOf(one) - ORDER.indexOf(other));
  const summary = parts.map(([status, count]) => `${count} ${status}`).join(", ") || "no step has run";
  return (
    <span className="steps-bar" role="img" aria-label={`Steps: ${summary}`} title={summary}>
      {parts.map(([status, count]) => (
        <i key={status} className={status} style={{ flexGrow: count }} />
      ))}
    </span>
  );
}
