/** What stands under the pointer, explained in the words of the language's own table. */

import { type Tooltip, hoverTooltip } from "@codemirror/view";
import type { Language } from "./language";
import { trailAt } from "./place";
import { withCode } from "./words";

export function explanations(language: () => Language | null) {
  return hoverTooltip((view, at): Tooltip | null => {
    const known = language();
    const found = known === null ? null : trailAt(view.state.doc.toString(), at);
    if (known === null || found === null) return null;
    const ofValue = found.isKey ? "" : known.docOfValue(found.trail, found.root);
    const words = ofValue || known.doc(found.trail, found.root);
    if (words === "") return null;
    return {
      pos: found.from,
      end: found.to,
      above: true,
      create: () => {
        const dom = document.createElement("div");
        dom.className = "editor-hover";
        const name = document.createElement("strong");
        name.textContent = found.trail.filter((key) => typeof key === "string").join(" › ");
        dom.append(name, ...withCode(words));
        return { dom };
      },
    };
  });
}
