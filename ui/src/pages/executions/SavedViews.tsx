import { type SubmitEvent, useState } from "react";
import { Link, type RouteLocation, navigate } from "../../app/router";
import { Button } from "../../design/Button";
import { Dialog } from "../../design/Dialog";
import { TextField } from "../../design/Field";
import { removeView, saveView, useViews } from "./views";

function SaveDialog({ query, onClose }: { query: string; onClose: () => void }) {
  const [name, setName] = useState("");
  const [wrong, setWrong] = useState<string | undefined>(undefined);
  const save = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const reason = saveView(name, query);
    if (reason === null) onClose();
    else setWrong(reason);
  };
  return (
    <Dialog title="Save this view" onClose={onClose}>
      <form className="stack" onSubmit={save}>
        <TextField label="Name" hint="The filters are kept in this browser. The same name replaces a view." wrong={wrong} value={name} onChange={(event) => setName(event.target.value)} />
        <div className="row" style={{ justifyContent: "flex-end" }}>
          <Button onClick={onClose}>Do nothing</Button>
          <Button variant="primary" type="submit">Save</Button>
        </div>
      </form>
    </Dialog>
  );
}

/** The named filters of this browser, as links; and a button that names the current one. */
export function SavedViews({ location, filtered }: { location: RouteLocation; filtered: boolean }) {
  const views = useViews();
  const [saving, setSaving] = useState(false);
  const query = location.query.toString();
  const shown = views.find((view) => view.query === query);
  if (views.length === 0 && !filtered) return null;
  return (
    <nav className="saved-views" aria-label="Saved views">
      {views.map((view) => (
        <Link key={view.name} to={`/executions?${view.query}`} aria-current={view === shown ? "page" : undefined}>{view.name}</Link>
      ))}
      {filtered && shown === undefined && <Button small variant="quiet" onClick={() => setSaving(true)}>Save this view…</Button>}
      {shown !== undefined && (
        <Button
          small variant="quiet"
          onClick={() => {
            removeView(shown.name);
            navigate("/executions");
          }}
        >
          Remove the view {shown.name}
        </Button>
      )}
      {saving && <SaveDialog query={query} onClose={() => setSaving(false)} />}
    </nav>
  );
}
