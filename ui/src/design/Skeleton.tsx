/** A placeholder in the size of the content that is loading, so that the layout does not jump. */
export function Skeleton({ height = 16, width = "100%" }: { height?: number; width?: number | string }) {
  return <span className="skeleton" style={{ height, width }} aria-hidden="true" />;
}

export function SkeletonRows({ rows = 6, height = 20 }: { rows?: number; height?: number }) {
  return (
    <div className="stack" role="status">
      <span className="visually-hidden">Loading</span>
      {Array.from({ length: rows }, (_, index) => (
        <Skeleton key={index} height={height} width={`${100 - ((index * 13) % 35)}%`} />
      ))}
    </div>
  );
}
