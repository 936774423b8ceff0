/** The extensions of the editor and its highlighting, which uses the colours of the page and so follows the theme. */

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentLess, indentMore } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import {
  HighlightStyle,
  bracketMatching,
  foldGutter,
  foldKeymap,
  indentOnInput,
  indentUnit,
  syntaxHighlighting,
} from "@codemirror/language";
import { lintGutter, lintKeymap } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import {
  EditorView,
  drawSelection,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { completions } from "./completion";
import { hoverDocs } from "./hover";
import type { Language } from "./language";

const highlighting = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--code-key)" },
  { tag: [tags.string, tags.special(tags.string), tags.content], color: "var(--code-text)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--code-value)" },
  { tag: tags.comment, color: "var(--text-faint)", fontStyle: "italic" },
  { tag: [tags.keyword, tags.labelName, tags.typeName], color: "var(--code-value)" },
]);

/** Tab indents. Escape followed by Tab leaves the editor, as its label says. */
function tabKeymap(): Extension {
  let leaving = false;
  return [
    EditorView.domEventHandlers({
      keydown: (event) => {
        leaving = event.key === "Escape" || (leaving && event.key === "Shift");
        return false;
      },
    }),
    keymap.of([
      { key: "Tab", run: (view) => !leaving && indentMore(view), shift: (view) => !leaving && indentLess(view) },
    ]),
  ];
}

export function editorExtensions(language: () => Language | null, onSave: () => void, label = "Playbook YAML"): Extension {
  return [
    lineNumbers(),
    foldGutter(),
    lintGutter(),
    highlightSpecialChars(),
    history(),
    drawSelection(),
    EditorState.allowMultipleSelections.of(true),
    EditorState.tabSize.of(2),
    indentUnit.of("  "),
    indentOnInput(),
    bracketMatching(),
    closeBrackets(),
    highlightActiveLine(),
    highlightActiveLineGutter(),
    highlightSelectionMatches(),
    yaml(),
    syntaxHighlighting(highlighting),
    autocompletion({ override: [completions(language)], icons: false }),
    hoverDocs(language),
    keymap.of([
      { key: "Mod-s", run: () => (onSave(), true), preventDefault: true },
      ...closeBracketsKeymap,
      ...defaultKeymap,
      ...searchKeymap,
      ...historyKeymap,
      ...foldKeymap,
      ...completionKeymap,
      ...lintKeymap,
    ]),
    tabKeymap(),
    EditorView.contentAttributes.of({
      "aria-label": `${label}. Press Escape, then Tab, to leave the editor`,
      spellcheck: "false",
      tabindex: "0", // a text that scrolls must be reachable by the keyboard
    }),
  ];
}
