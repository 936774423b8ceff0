import { type KeyboardEvent, type PointerEvent, useCallback, useState } from "react";

const STEP = 2; // percent, of one key

interface Split {
  value: number; // percent
  set: (value: number | null) => void; // null: the default
}

/** A size in percent that this browser remembers. */
export function useSplit(name: string, initial: number): Split {
  const key = `noetl.split.${name}`;
  const [value, setValue] = useState(() => Number(localStorage.getItem(key)) || initial);
  const set = useCallback((next: number | null) => {
    setValue(next ?? initial);
    if (next === null) localStorage.removeItem(key);
    else localStorage.setItem(key, String(Math.round(next * 10) / 10));
  }, [key, initial]);
  return { value, set };
}

interface SplitterProps {
  label: string;
  direction: "horizontal" | "vertical"; // in which it moves
  split: Split;
  least: number;
  most: number;
}

/** A line between two panes. Drag it, or use the arrow keys; a double click or Home restores the default. */
export function Splitter({ label, direction, split, least, most }: SplitterProps) {
  const across = direction === "horizontal";
  const put = (value: number) => split.set(Math.min(most, Math.max(least, value)));
  const drag = (event: PointerEvent<HTMLDivElement>) => {
    const element = event.currentTarget;
    const box = element.parentElement?.getBoundingClientRect();
    if (!element.hasPointerCapture(event.pointerId) || box === undefined) return;
    put(across ? (100 * (event.clientX - box.left)) / box.width : (100 * (event.clientY - box.top)) / box.height);
  };
  const press = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -STEP, ArrowUp: -STEP, ArrowRight: STEP, ArrowDown: STEP }[event.key];
    if (by === undefined && event.key !== "Home") return;
    event.preventDefault();
    event.stopPropagation();
    if (by === undefined) split.set(null);
    else put(split.value + by);
  };
  return (
    <div
      className={`splitter ${direction}`} role="separator" tabIndex={0} aria-label={label}
      aria-orientation={across ? "vertical" : "horizontal"}
      aria-valuenow={Math.round(split.value)} aria-valuemin={least} aria-valuemax={most}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={drag} onKeyDown={press} onDoubleClick={() => split.set(null)}
    />
  );
}
