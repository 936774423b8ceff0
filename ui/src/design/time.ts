/** Formats instants and durations. */

import { zoneNow } from "./timeZone";

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 0.001) return "0 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function secondsBetween(from: string, to: string | number): number {
  const end = typeof to === "number" ? to : Date.parse(to);
  return Math.max(0, (end - Date.parse(from)) / 1000);
}

function formatsIn(timeZone: string | undefined) {
  return {
    clock: new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false, timeZone }),
    day: new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone }),
    date: new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeZone }),
    whole: new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", timeZone }),
  };
}

const FORMATS = { local: formatsIn(undefined), UTC: formatsIn("UTC") };
const formats = () => FORMATS[zoneNow()];
const suffix = (): string => (zoneNow() === "UTC" ? " UTC" : "");

/** The time of day, with the date unless it is today. */
export function shortTime(at: string, now: Date = new Date()): string {
  const instant = new Date(at);
  const { clock, day, date } = formats();
  const today = date.format(instant) === date.format(now);
  return `${today ? "" : `${day.format(instant)}, `}${clock.format(instant)}${suffix()}`;
}

export function wholeTime(at: string): string {
  return `${formats().whole.format(new Date(at))}${suffix()}`;
}

export function ago(at: string, now: number): string {
  const seconds = secondsBetween(at, now);
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}
