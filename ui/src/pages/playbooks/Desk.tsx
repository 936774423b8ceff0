/** The text of a playbook beside its net: written, checked, registered and run in one place. */

import { Suspense, lazy, useEffect, useRef, useState } from "react";
import { get, post } from "../../api/client";
import { inWords } from "../../api/problem";
import type { components } from "../../api/schema";
import { useResource } from "../../api/useResource";
import { navigate, useQuery } from "../../app/router";
import { useMay } from "../../app/session";
import { Button } from "../../design/Button";
import { SkeletonRows } from "../../design/Skeleton";
import { toast } from "../../design/toasts";
import type { EditorHandle } from "../../editor/Editor";
import type { Schema } from "../../editor/language";
import { DeskHead } from "./DeskHead";
import { ProblemList } from "./ProblemList";
import { Side } from "./Side";
import { draftOf, dropDraft, keepDraft } from "./draft";
import { linkTo } from "./links";
import { useCheck } from "./useCheck";
import "./playbooks.css";

const Editor = lazy(() => import("../../editor/Editor"));

export type Saved = components["schemas"]["PlaybookDetails"];
type Registered = components["schemas"]["RegisterResponse"];
type Told = components["schemas"]["StartResponse"];

interface DeskProps {
  name: string; // under which a draft is kept
  saved: Saved | null; // null: it was never registered
  text: string;
}

export function Desk({ name, saved: given, text: begun }: DeskProps) {
  const [saved, setSaved] = useState(given);
  const [text, setText] = useState(() => draftOf(name) ?? begun);
  const [line, setLine] = useState(1);
  const [tab, setTab] = useQuery("tab");
  const editor = useRef<EditorHandle>(null);
  const side = useRef<HTMLElement>(null);
  const checked = useCheck(text);
  const schema = useResource<Schema>("schema", (signal) => get("/playbooks/schema", {}, signal));
  const mayWrite = useMay("write");
  const isChanged = saved === null || text !== saved.text;

  useEffect(() => {
    if (text === (saved?.text ?? begun)) dropDraft(name);
    else keepDraft(name, text);
  }, [name, text, saved, begun]);

  /** null: it could not be registered, and why was said. */
  const save = async (): Promise<Saved | null> => {
    try {
      const told = await post<Registered>("/playbooks", { text });
      const now: Saved = { ...told, text, at: new Date().toISOString(), current: true, archived: false };
      setSaved(now);
      dropDraft(name);
      toast(`${told.path} is registered, version ${told.version}`);
      return now;
    } catch (error) {
      toast(inWords(error), "error");
      return null;
    }
  };
  /** The address becomes that of what was registered, so that going back leads to it. */
  const saveHere = async (): Promise<Saved | null> => {
    const now = await save();
    if (now !== null && (now.path !== given?.path || !given.current)) navigate(linkTo(now.path), { replace: true });
    return now;
  };
  const run = async (workload: Record<string, unknown>) => {
    const now = isChanged ? await saveHere() : saved;
    if (now === null) return;
    try {
      const told = await post<Told>("/executions", { digest: now.digest, workload });
      navigate(`/executions/${told.execution_id}`);
    } catch (error) {
      toast(inWords(error), "error");
    }
  };
  const showRun = () => {
    setTab("run");
    side.current?.scrollIntoView({ block: "nearest" });
  };
  return (
    <div className="desk">
      <DeskHead saved={saved} checked={checked} isFresh={checked.text === text} isChanged={isChanged}>
        {isChanged && saved !== null && <Button look="quiet" onClick={() => setText(saved.text)}>Discard changes</Button>}
        {mayWrite && (
          <Button onClick={() => void saveHere()} disabled={!isChanged} title="Register a new version (Ctrl S)">
            {saved === null ? "Register" : "Save as a new version"}
          </Button>
        )}
        {tab !== "run" && <Button look="primary" onClick={showRun}>Run…</Button>}
      </DeskHead>
      <section className="desk-text" aria-label="Text">
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
        {checked.error !== null && <p className="notice error">It can not be checked: {checked.error}</p>}
        {checked.problems.length > 0 && (
          <ProblemList
            text={text}
            problems={checked.problems}
            onReveal={(problem) => editor.current?.reveal(problem.line, problem.column)}
            onApply={(edit) => editor.current?.apply(edit)}
          />
        )}
      </section>
      <Side
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
