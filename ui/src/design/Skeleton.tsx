/** Stands where something will be, in its size, so that nothing jumps when it comes. */
export function Skeleton({ height = 16, width = "100%" }: { height?: number; width?: number | string }) {
  return <span className="skeleton" style={{ height, width }} aria-hidden="true" />;
}

export function SkeletonRows({ rows = 6, height = 20 }: { rows?: number; height?: number }) {
  return (
    <div className="stack" role="status">
      <span className="visually-hidden">Loading</span>
      {Array.from({ length: rows }, (_, place) => (
        <Skeleton key={place} height={height} width={`${100 - ((place * 13) % 35)}%`} />
      ))}
    </div>
  );
}
