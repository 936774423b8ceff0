/** A YAML editor for playbooks that underlines problems and offers fixes. Its code is loaded on first use. */

import { type Diagnostic, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { type Ref, useEffect, useImperativeHandle, useRef } from "react";
import { editOf } from "./fixes";
import { Language, type Schema } from "./language";
import { type Edit, type Problem, offsetOf, spanOf } from "./problems";
import { editorExtensions } from "./extensions";
import "./editor.css";

export interface EditorHandle {
  reveal: (line: number, column?: number) => void;
  apply: (edit: Edit) => void;
}

interface EditorProps {
  text: string; // a new value replaces the content
  problems: readonly Problem[];
  schema: Schema | null;
  onChange: (text: string) => void;
  onSave: () => void;
  onLine?: (line: number) => void; // the cursor is on another line
  readOnly?: boolean;
  label?: string; // for screen readers; the playbook unless it is named
  ref?: Ref<EditorHandle>;
}

export default function Editor(props: EditorProps) {
  const { text, problems, schema, readOnly = false, ref } = props;
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(props);
  const language = useRef<Language | null>(null);
  useEffect(() => {
    latest.current = props;
  });
  useEffect(() => {
    language.current = schema === null ? null : new Language(schema);
  }, [schema]);

  useEffect(() => {
    if (box.current === null) return;
    let line = 1;
    const listen = EditorView.updateListener.of((update) => {
      if (update.docChanged) latest.current.onChange(update.state.doc.toString());
      const now = update.state.doc.lineAt(update.state.selection.main.head).number;
      if (now !== line) latest.current.onLine?.((line = now));
    });
    const extensions = [
      editorExtensions(() => language.current, () => latest.current.onSave(), latest.current.label),
      listen,
      EditorState.readOnly.of(readOnly),
    ];
    const made = new EditorView({ state: EditorState.create({ doc: latest.current.text, extensions }), parent: box.current });
    view.current = made;
    return () => made.destroy();
  }, [readOnly]);

  useEffect(() => {
    const now = view.current;
    if (now === null || now.state.doc.toString() === text) return;
    now.dispatch({ changes: { from: 0, to: now.state.doc.length, insert: text } });
  }, [text]);

  useEffect(() => {
    const now = view.current;
    if (now === null) return;
    const written = now.state.doc.toString();
    now.dispatch(setDiagnostics(now.state, problems.map((each) => diagnosticOf(written, each))));
  }, [problems]);

  useImperativeHandle(ref, () => ({
    reveal: (line, column = 1) => {
      const now = view.current;
      if (now === null) return;
      const at = offsetOf(now.state.doc.toString(), line, column);
      now.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
      now.focus();
    },
    apply: (edit) => {
      view.current?.dispatch({ changes: edit, selection: { anchor: edit.from + edit.insert.length }, userEvent: "input.fix" });
      view.current?.focus();
    },
  }));
  return <div className="editor" ref={box} />;
}

function diagnosticOf(text: string, problem: Problem): Diagnostic {
  const edit = editOf(text, problem);
  const diagnostic: Diagnostic = {
    ...spanOf(text, problem),
    severity: problem.severity,
    source: problem.code,
    message: problem.message,
  };
  if (edit === null) return diagnostic;
  const name = `Change to ${edit.insert.trim()}`;
  // Compute the edit again on click: the text may have changed.
  const apply = (view: EditorView) => {
    const changes = editOf(view.state.doc.toString(), problem);
    if (changes !== null) view.dispatch({ changes, userEvent: "input.fix" });
  };
  return { ...diagnostic, actions: [{ name, apply }] };
}
