/** The playbook page: edit, check, register and run the text, with its net next to it. */

import { Suspense, lazy, useEffect, useRef, useState } from "react";
import { get, post } from "../../api/client";
import { errorMessage } from "../../api/problem";
import type { Playbook, RegisteredPlaybook, Started } from "../../api/types";
import { useResource } from "../../api/useResource";
import { navigate, useQueryParam } from "../../app/router";
import { useHasScope } from "../../app/session";
import { Button } from "../../design/Button";
import { SkeletonRows } from "../../design/Skeleton";
import { toast } from "../../design/toasts";
import type { EditorHandle } from "../../editor/Editor";
import type { Schema } from "../../editor/language";
import { EditorHeader } from "./EditorHeader";
import { ProblemList } from "./ProblemList";
import type { OnRun } from "./RunForm";
import { SidePanel } from "./SidePanel";
import { loadDraft, deleteDraft, saveDraft } from "./draft";
import { playbookLink } from "./links";
import { useCheck } from "./useCheck";
import "./playbooks.css";

const Editor = lazy(() => import("../../editor/Editor"));

interface PlaybookEditorProps {
  name: string; // key of the stored draft
  saved: Playbook | null; // null: not registered yet
  text: string;
}

export function PlaybookEditor({ name, saved: initial, text: initialText }: PlaybookEditorProps) {
  const [saved, setSaved] = useState(initial);
  const [text, setText] = useState(() => loadDraft(name) ?? initialText);
  const [line, setLine] = useState(1);
  const [tab, setTab] = useQueryParam("tab");
  const editor = useRef<EditorHandle>(null);
  const side = useRef<HTMLElement>(null);
  const checked = useCheck(text);
  const schema = useResource<Schema>("schema", (signal) => get("/playbooks/schema", {}, signal));
  const canWrite = useHasScope("write");
  const isChanged = saved === null || text !== saved.text;

  useEffect(() => {
    if (text === (saved?.text ?? initialText)) deleteDraft(name);
    else saveDraft(name, text);
  }, [name, text, saved, initialText]);

  /** Registers the text. Returns null when that fails; a toast shows the reason. */
  const save = async (): Promise<Playbook | null> => {
    try {
      const response = await post<RegisteredPlaybook>("/playbooks", { text });
      const now: Playbook = { ...response, text, at: new Date().toISOString(), current: true, archived: false };
      setSaved(now);
      deleteDraft(name);
      toast(`Registered ${response.path}, version ${response.version}`);
      return now;
    } catch (error) {
      toast(errorMessage(error), "error");
      return null;
    }
  };
  /** Registers the text and changes the URL to the registered playbook, so that Back leads to it. */
  const saveHere = async (): Promise<Playbook | null> => {
    const now = await save();
    if (now !== null && (now.path !== initial?.path || !initial.current)) navigate(playbookLink(now.path), { replace: true });
    return now;
  };
  const run: OnRun = async (workload, secrets) => {
    const now = isChanged ? await saveHere() : saved;
    if (now === null) return;
    try {
      const response = await post<Started>("/executions", { digest: now.digest, workload, secrets });
      navigate(`/executions/${response.execution_id}`);
    } catch (error) {
      toast(errorMessage(error), "error");
    }
  };
  const showRun = () => {
    setTab("run");
    side.current?.scrollIntoView({ block: "nearest" });
  };
  return (
    <div className="playbook-editor">
      <EditorHeader saved={saved} checked={checked} isFresh={checked.text === text} isChanged={isChanged}>
        {isChanged && saved !== null && <Button variant="quiet" onClick={() => setText(saved.text)}>Discard changes</Button>}
        {canWrite && (
          <Button onClick={() => void saveHere()} disabled={!isChanged} title="Register a new version (Ctrl S)">
            {saved === null ? "Register" : "Save as a new version"}
          </Button>
        )}
        {tab !== "run" && <Button variant="primary" onClick={showRun}>Run…</Button>}
      </EditorHeader>
      <section className="playbook-editor-text" aria-label="Text">
        <Suspense fallback={<div className="editor-wait"><SkeletonRows rows={14} /></div>}>
          <Editor
            ref={editor}
            text={text}
            problems={checked.problems}
            schema={schema.data ?? null}
            onChange={setText}
            onSave={() => void (isChanged && saveHere())}
            onLine={setLine}
          />
        </Suspense>
        {checked.error !== null && <p className="notice error">Cannot check the text: {checked.error}</p>}
        {checked.problems.length > 0 && (
          <ProblemList
            text={text}
            problems={checked.problems}
            onReveal={(problem) => editor.current?.reveal(problem.line, problem.column)}
            onApply={(edit) => editor.current?.apply(edit)}
          />
        )}
      </section>
      <SidePanel
        ref={side}
        tab={tab ?? "net"}
        onTab={(id) => setTab(id === "net" ? null : id)}
        text={text}
        saved={saved}
        checked={checked}
        line={line}
        mustSave={isChanged}
        onStep={(place) => editor.current?.reveal(place.line, place.column)}
        onRun={run}
      />
    </div>
  );
}
