/** The state that cards and arcs render. It is separate from xyflow's data, so that a change does not move nodes. */

import { createContext, useContext } from "react";
import { NO_OVERLAY, type Overlay } from "./overlay";

export interface GraphState {
  overlay: Overlay;
  live: boolean; // an execution is shown: steps without a state were not reached
  selected: string | null;
  onSelect: (step: string) => void;
  onFocus: (step: string) => void; // its card has the focus of the keyboard
}

export const GraphContext = createContext<GraphState>({
  overlay: NO_OVERLAY,
  live: false,
  selected: null,
  onSelect: () => undefined,
  onFocus: () => undefined,
});

export const useGraphState = (): GraphState => useContext(GraphContext);
