/** Shows the documentation of the key or value under the pointer. */

import { type Tooltip, hoverTooltip } from "@codemirror/view";
import type { Language } from "./language";
import { hoverTargetAt } from "./position";
import { textWithCode } from "./textWithCode";

export function hoverDocs(language: () => Language | null) {
  return hoverTooltip((view, at): Tooltip | null => {
    const known = language();
    const found = known === null ? null : hoverTargetAt(view.state.doc.toString(), at);
    if (known === null || found === null) return null;
    const valueDoc = found.isKey ? "" : known.docOfValue(found.keyPath, found.root);
    const text = valueDoc || known.doc(found.keyPath, found.root);
    if (text === "") return null;
    return {
      pos: found.from,
      end: found.to,
      above: true,
      create: () => {
        const dom = document.createElement("div");
        dom.className = "editor-hover";
        const name = document.createElement("strong");
        name.textContent = found.keyPath.filter((key) => typeof key === "string").join(" › ");
        dom.append(name, ...textWithCode(text));
        return { dom };
      },
    };
  });
}
