import { Button } from "../../design/Button";
import type { BulkAction } from "./bulk";
import type { Selection } from "./useSelection";

interface SelectionBarProps {
  selection: Selection;
  loaded: number;
  total: number | null; // that match the filter; null: unknown
  onAction: (action: BulkAction) => void;
}

const ACTIONS: readonly [BulkAction, string][] = [["cancel", "Cancel…"], ["retry", "Retry…"], ["label", "Label…"], ["delete", "Delete…"]];

/** What is selected, and what can be done with it. */
export function SelectionBar({ selection, loaded, total, onAction }: SelectionBarProps) {
  const { count, all } = selection;
  if (count === 0) return null;
  const more = !all && count === loaded && (total === null || total > loaded);
  const number = all ? total : count;
  return (
    <div className="selection-bar" role="group" aria-label="Selected executions">
      <b className="numbers" role="status">
        {number === null ? "All that match are selected" : `${number.toLocaleString("en")} selected`}
      </b>
      {more && (
        <Button small variant="quiet" onClick={() => selection.setAll(true)}>
          {total === null ? "Select all that match" : `Select all ${total.toLocaleString("en")} that match`}
        </Button>
      )}
      <span className="grow" />
      {ACTIONS.map(([action, label]) => (
        <Button small key={action} variant={action === "delete" ? "danger" : "normal"} onClick={() => onAction(action)}>{label}</Button>
      ))}
      <Button small variant="quiet" onClick={selection.clear}>Clear</Button>
    </div>
  );
}
