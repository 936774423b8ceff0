/** Whether times are shown in the time zone of the browser or in UTC. */

import { useSyncExternalStore } from "react";

export type Zone = "local" | "UTC";

const KEY = "noetl.zone";
const listeners = new Set<() => void>();
let current: Zone = localStorage.getItem(KEY) === "UTC" ? "UTC" : "local";

export const zoneNow = (): Zone => current;

export function setZone(zone: Zone): void {
  current = zone;
  if (zone === "local") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, zone);
  for (const listener of listeners) listener();
}

export function useZone(): Zone {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, zoneNow);
}
