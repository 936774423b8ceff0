/** What cards and arcs read while they are drawn: laid beside xyflow's data, so that a scrub moves nothing. */

import { createContext, useContext } from "react";
import { NO_OVERLAY, type Overlay } from "./overlay";

export interface Drawn {
  overlay: Overlay;
  live: boolean; // an execution is laid over it: steps without a state have not been reached
  selected: string | null;
  onSelect: (step: string) => void;
}

export const DrawnContext = createContext<Drawn>({
  overlay: NO_OVERLAY,
  live: false,
  selected: null,
  onSelect: () => undefined,
});

export const useDrawn = (): Drawn => useContext(DrawnContext);
