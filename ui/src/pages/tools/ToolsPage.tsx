import { useState } from "react";
import { get } from "../../api/client";
import type { ToolList } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import type { PageProps } from "../../routes";
import { ToolDetails } from "./ToolDetails";
import "./tools.css";

export default function ToolsPage({ location }: PageProps) {
  const tools = useResource<ToolList>("/tools", (signal) => get("/tools", {}, signal));
  const [search, setSearch] = useState("");
  const chosen = location.query.get("kind") ?? tools.data?.items[0]?.kind;
  const text = search.trim().toLowerCase();
  const found = tools.data?.items.filter((each) => `${each.kind} ${each.summary}`.toLowerCase().includes(text));
  return (
    <div className="page">
      <div className="page-head">
        <h1>Tools</h1>
        <span className="soft">What a task can do, by <code>kind</code></span>
      </div>
      {tools.error !== undefined && <ErrorNotice error={tools.error} onRetry={tools.reload} />}
      <div className="tools">
        <nav className="card tool-list" aria-label="Kinds of tools">
          <input
            className="input"
            type="search"
            aria-label="Find a tool"
            placeholder="Find a tool"
            value={search}
            onChange={(event) => setSearch(event.target.value)}
          />
          {found === undefined ? (
            tools.error === undefined && <SkeletonRows rows={10} height={36} />
          ) : (
            <ul>
              {found.map((each) => (
                <li key={each.kind}>
                  <Link to={`/tools?kind=${encodeURIComponent(each.kind)}`} aria-current={each.kind === chosen ? "true" : undefined}>
                    <strong className="mono">{each.kind}</strong>
                    <span className="soft cut">{each.summary.replaceAll("`", "")}</span>
                  </Link>
                </li>
              ))}
            </ul>
          )}
          {found?.length === 0 && <EmptyState title="No matching tool">You can add tools as Python packages: see “Writing a tool” in the documentation.</EmptyState>}
        </nav>
        {chosen !== undefined && <ToolDetails kind={chosen} key={chosen} />}
      </div>
    </div>
  );
}
