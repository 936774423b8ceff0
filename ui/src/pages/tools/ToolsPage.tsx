import { useState } from "react";
import { get } from "../../api/client";
import type { components } from "../../api/schema";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { Empty } from "../../design/Empty";
import { Failed } from "../../design/Failed";
import { SkeletonRows } from "../../design/Skeleton";
import type { PageProps } from "../../routes";
import { Tool } from "./Tool";
import "./tools.css";

type Tools = components["schemas"]["ToolList"];

export default function ToolsPage({ place }: PageProps) {
  const tools = useResource<Tools>("/tools", (signal) => get("/tools", {}, signal));
  const [sought, setSought] = useState("");
  const chosen = place.query.get("kind") ?? tools.data?.items[0]?.kind;
  const words = sought.trim().toLowerCase();
  const found = tools.data?.items.filter((each) => `${each.kind} ${each.summary}`.toLowerCase().includes(words));
  return (
    <div className="page">
      <div className="page-head">
        <h1>Tools</h1>
        <span className="soft">What a task can do, by its <code>kind</code></span>
      </div>
      {tools.error !== undefined && <Failed error={tools.error} onRetry={tools.reload} />}
      <div className="tools">
        <nav className="card tool-list" aria-label="Kinds of tools">
          <input
            className="input"
            type="search"
            aria-label="Find a tool"
            placeholder="Find a tool"
            value={sought}
            onChange={(event) => setSought(event.target.value)}
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
          {found?.length === 0 && <Empty title="No such tool">A tool of your own is a Python package: see “Writing a tool” in the docs.</Empty>}
        </nav>
        {chosen !== undefined && <Tool kind={chosen} key={chosen} />}
      </div>
    </div>
  );
}
