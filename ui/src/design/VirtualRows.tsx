/** A long list of rows with equal height. Only the visible rows are in the page. */

import { type CSSProperties, type ReactNode, type Ref, useCallback, useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from "react";

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
  onVisible?: (first: number, last: number) => void; // the visible rows have changed
  initialTop?: number; // where the list is scrolled to at first
  onTop?: (top: number) => void; // it was scrolled
  atEnd?: boolean; // show the last row whenever rows are added or the list is resized
  ref?: Ref<VirtualRowsHandle>;
}

const MARGIN_ROWS = 8;
// The largest element height that browsers support. A longer list is scaled: one pixel of scrolling is several of rows.
const HEIGHT_MAX = 8_000_000;

export function VirtualRows(props: VirtualRowsProps) {
  const { count, rowHeight, label, role = "list", className, row, onVisible, atEnd = false, initialTop = 0, onTop, ref } = props;
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const whole = count * rowHeight;
  const drawn = Math.min(whole, HEIGHT_MAX);
  const scale = drawn > view.height ? (whole - view.height) / (drawn - view.height) : 1;
  const top = view.top * scale;
  const first = Math.max(0, Math.floor(top / rowHeight) - MARGIN_ROWS);
  const last = Math.min(count - 1, Math.ceil((top + view.height) / rowHeight) + MARGIN_ROWS);

  const measure = useCallback(() => {
    const element = box.current;
    if (element === null) return;
    onTop?.(element.scrollTop);
    setView({ top: element.scrollTop, height: element.clientHeight });
  }, [onTop]);

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    if (initialTop > 0) element.scrollTop = initialTop;
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    return () => watch.disconnect();
  }, [measure, initialTop]);

  useEffect(() => {
    if (last >= first) onVisible?.(first, last);
  }, [first, last, onVisible]);

  // Also after a resize: a list that is hidden while rows arrive cannot be scrolled.
  useLayoutEffect(() => {
    const element = box.current;
    if (atEnd && element !== null) element.scrollTop = element.scrollHeight;
  }, [atEnd, count, view.height]);

  useImperativeHandle(ref, () => ({
    reveal: (index) => {
      const element = box.current;
      if (element === null) return;
      const at = (index * rowHeight) / scale;
      const page = element.clientHeight;
      if (at < element.scrollTop + rowHeight || at > element.scrollTop + page - 2 * rowHeight) {
        element.scrollTop = Math.max(0, at - page / 2);
      }
    },
  }));

  const rows: ReactNode[] = [];
  for (let index = first; index <= last; index += 1) {
    const y = index * rowHeight - top + view.top;
    rows.push(row(index, { position: "absolute", top: 0, left: 0, right: 0, height: rowHeight, transform: `translateY(${y}px)` }));
  }
  return (
    <div ref={box} className={className} onScroll={measure} tabIndex={0} role="region" aria-label={label}
      style={{ overflowY: "auto", overflowAnchor: "none", position: "relative" }}>
      <div role={role} style={{ height: drawn, position: "relative" }}>{rows}</div>
    </div>
  );
}
