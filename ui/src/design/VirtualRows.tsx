/** A long list of rows of one height: only those in sight are in the page. */

import { type CSSProperties, type ReactNode, type Ref, useCallback, useEffect, useImperativeHandle, useRef, useState } from "react";

export interface VirtualRowsHandle {
  reveal: (place: number) => void;
}

interface VirtualRowsProps {
  count: number;
  rowHeight: number;
  label: string;
  role?: "list" | "rowgroup";
  className?: string;
  row: (place: number, style: CSSProperties) => ReactNode;
  onSight?: (first: number, last: number) => void; // rows that are in sight, for whoever fetches them
  ref?: Ref<VirtualRowsHandle>;
}

const MARGIN_ROWS = 8;
// Browsers can not draw a box that is higher; beyond it a pixel of scrolling is more than a pixel of rows.
const HEIGHT_MAX = 8_000_000;

export function VirtualRows(props: VirtualRowsProps) {
  const { count, rowHeight, label, role = "list", className, row, onSight, ref } = props;
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 600 });
  const whole = count * rowHeight;
  const drawn = Math.min(whole, HEIGHT_MAX);
  const scale = drawn > seen.height ? (whole - seen.height) / (drawn - seen.height) : 1;
  const top = seen.top * scale;
  const first = Math.max(0, Math.floor(top / rowHeight) - MARGIN_ROWS);
  const last = Math.min(count - 1, Math.ceil((top + seen.height) / rowHeight) + MARGIN_ROWS);

  const measure = useCallback(() => {
    const element = box.current;
    if (element !== null) setSeen({ top: element.scrollTop, height: element.clientHeight });
  }, []);

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    return () => watch.disconnect();
  }, [measure]);

  useEffect(() => {
    if (last >= first) onSight?.(first, last);
  }, [first, last, onSight]);

  useImperativeHandle(ref, () => ({
    reveal: (place) => {
      const element = box.current;
      if (element === null) return;
      const at = (place * rowHeight) / scale;
      const page = element.clientHeight;
      if (at < element.scrollTop + rowHeight || at > element.scrollTop + page - 2 * rowHeight) {
        element.scrollTop = Math.max(0, at - page / 2);
      }
    },
  }));

  const rows: ReactNode[] = [];
  for (let place = first; place <= last; place += 1) {
    const y = place * rowHeight - top + seen.top;
    rows.push(row(place, { position: "absolute", top: 0, left: 0, right: 0, height: rowHeight, transform: `translateY(${y}px)` }));
  }
  return (
    <div ref={box} className={className} onScroll={measure} tabIndex={0} role="region" aria-label={label}
      style={{ overflowY: "auto", position: "relative" }}>
      <div role={role} style={{ height: drawn, position: "relative" }}>{rows}</div>
    </div>
  );
}
