import { useCallback, useMemo, useState } from "react";
import { isLive } from "../../api/commands";
import type { BulkResponse, Head } from "../../api/types";
import { Link, navigate, withQuery } from "../../app/router";
import { useHasScope } from "../../app/session";
import { Button } from "../../design/Button";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { Skeleton } from "../../design/Skeleton";
import { loadable } from "../../design/loadable";
import { VirtualRows } from "../../design/VirtualRows";
import { shortTime } from "../../design/time";
import { useIsNarrow } from "../../design/useMediaQuery";
import { useNow } from "../../design/useNow";
import type { PageProps } from "../../routes";
import { CancelDialog } from "./CancelDialog";
import { ExecutionRow } from "./ExecutionRow";
import { Filters } from "./Filters";
import "./executions.css";
import { type Heads, filterOf, isFiltered } from "./heads";
import { SavedViews } from "./SavedViews";
import { SelectionBar } from "./SelectionBar";
import { type Wanted, withResult } from "./bulk";
import { useGlances } from "./useGlances";
import { useHeads } from "./useHeads";
import { useSelection } from "./useSelection";

const BulkDialog = loadable(async () => (await import("./BulkDialog")).default, null);
const NO_HEADS: readonly Head[] = [];

const PREFETCH_ROWS = 20; // load the next page when this close to the end

/** How many executions match: exact, also while only some of them are loaded. */
function Total({ heads, filtered }: { heads: Heads | null; filtered: boolean }) {
  const total = heads?.total ?? null;
  return (
    <span className="grow soft numbers" role="status" aria-label="Total">
      {total !== null && `${total.toLocaleString("en")} ${filtered ? (total === 1 ? "matches" : "match") : "in total"}`}
    </span>
  );
}

function NoExecutions({ filtered }: { filtered: boolean }) {
  if (filtered) return <EmptyState title="No matching executions">Remove a filter to see more.</EmptyState>;
  return (
    <EmptyState
      title="No executions yet"
      command="noetl init && noetl run hello.yaml"
      action={<Link className="button primary" to="/playbooks">Go to playbooks</Link>}
    >
      Register and run a playbook here, or run one on the command line with the same database.
    </EmptyState>
  );
}

export default function ExecutionsPage({ location }: PageProps) {
  const filter = useMemo(() => filterOf(location.query), [location.query]);
  const { heads, error, loadMore, reload, removed, staleSince, initialTop, onTop } = useHeads(filter);
  const { glances, load } = useGlances();
  const [cancelling, setCancelling] = useState<Head | null>(null);
  const selection = useSelection(JSON.stringify(filter), heads?.items ?? NO_HEADS);
  const [wanted, setWanted] = useState<Wanted | null>(null);
  const canRun = useHasScope("run");
  const onDone = (result: BulkResponse) => {
    if (result.action === "delete") removed(new Set(withResult(result, "done").map((item) => item.execution_id)));
    selection.clear();
  };
  const narrow = useIsNarrow();
  const now = useNow(1000, heads?.items.some((head) => isLive(head.status)) ?? false);
  const onVisible = useCallback(
    (first: number, last: number) => {
      if (heads === null) return;
      load(heads.items.slice(first, last + 1));
      if (last > heads.items.length - PREFETCH_ROWS) loadMore();
    },
    [heads, load, loadMore],
  );
  return (
    <div className="page executions">
      <div className="page-head">
        <h1>Executions</h1>
        <Total heads={heads} filtered={isFiltered(filter)} />
        {canRun && heads !== null && heads.items.length > 0 && (
          <Button small variant="quiet" onClick={() => selection.setAll(heads.next !== null)}>Select all</Button>
        )}
        <Filters filter={filter} onChange={(changes) => navigate(withQuery(location, changes))} />
      </div>
      <SavedViews location={location} filtered={isFiltered(filter)} />
      {error !== undefined && <ErrorNotice error={error} onRetry={reload} />}
      {staleSince !== null && (
        <p className="notice waiting" role="status">
          The connection to the server is lost. This list shows the state of {shortTime(new Date(staleSince).toISOString())} and may be out of date.
          It is updated when the server answers again.
        </p>
      )}
      {canRun && heads !== null && (
        <SelectionBar
          selection={selection}
          loaded={heads.items.length}
          total={heads.total}
          onAction={(action) => setWanted({ action, ids: selection.all ? null : [...selection.ids], filter })}
        />
      )}
      <div className="card executions-list">
        {!narrow && (
          <div className="execution-head" aria-hidden="true">
            <span /><span>Status</span><span>Playbook</span><span>Steps</span><span>Started</span><span>Duration</span><span>By</span><span />
          </div>
        )}
        {heads === null && error === undefined && (
          <div className="stack executions-waiting">{Array.from({ length: 8 }, (_, row) => <Skeleton key={row} height={28} />)}</div>
        )}
        {heads?.items.length === 0 && <NoExecutions filtered={isFiltered(filter)} />}
        {heads !== null && heads.items.length > 0 && (
          <VirtualRows
            className="executions-rows"
            label="Executions"
            count={heads.items.length}
            rowHeight={narrow ? 104 : 54}
            onVisible={onVisible}
            initialTop={initialTop}
            onTop={onTop}
            row={(row, style) => {
              const head = heads.items[row];
              if (head === undefined) return null;
              return (
                <ExecutionRow
                  key={head.execution_id}
                  head={head}
                  glance={glances.get(head.execution_id)}
                  now={now}
                  style={style}
                  onCancel={setCancelling}
                  selected={selection.has(head.execution_id)}
                  onSelect={canRun ? selection.toggle : undefined}
                />
              );
            }}
          />
        )}
      </div>
      {wanted !== null && <BulkDialog wanted={wanted} onClose={() => setWanted(null)} onDone={onDone} />}
      {cancelling !== null && (
        <CancelDialog id={cancelling.execution_id} path={cancelling.path} onClose={() => setCancelling(null)} />
      )}
    </div>
  );
}
