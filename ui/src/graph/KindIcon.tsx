/** An icon for each kind of tool. */

const PATHS: Record<string, string> = {
  http: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
  python: "M8 8l-5 4 5 4M16 8l5 4-5 4M14 5l-4 14",
  shell: "M4 7l5 5-5 5M12 18h8",
  postgres: "M4 6c0-4 16-4 16 0v12c0 4-16 4-16 0zM4 6c0 4 16 4 16 0M4 12c0 4 16 4 16 0",
  noop: "M5 12h14",
  wait: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16M12 8v4l3 2",
  playbook: "M6 4h9l4 4v12H6zM14 4v5h5",
  workbook: "M4 5h7v14H4zM13 5h7v14h-7z",
  secrets: "M8 11V8a4 4 0 0 1 8 0v3M6 11h12v9H6z",
  resolve: "M10 14a4 4 0 0 1 0-6l3-3a4 4 0 0 1 6 6l-1 1M14 10a4 4 0 0 1 0 6l-3 3a4 4 0 0 1-6-6l1-1",
  quantum: "M12 10a2 2 0 1 0 0 4 2 2 0 0 0 0-4M3 12c0-4 18-4 18 0s-18 4-18 0M12 3c4 0 4 18 0 18s-4-18 0-18",
};

const ALIASES: Record<string, string> = { sqlite: "postgres", duckdb: "postgres" };
const DEFAULT_PATH = "M12 4l8 4.5v7L12 20l-8-4.5v-7z";

export function KindIcon({ kind }: { kind: string | undefined }) {
  const name = kind?.split(" ")[0] ?? "noop";
  const path = PATHS[ALIASES[name] ?? name] ?? DEFAULT_PATH;
  return (
    <svg className="kind-icon" viewBox="0 0 24 24" width="18" height="18" aria-hidden="true">
      <path d={path} fill="none" stroke="currentColor" strokeWidth="1.8" strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  );
}
