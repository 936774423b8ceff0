/** Two routes side by side: steps that both have stand in one row. */

export interface RouteRow {
  left: string | null;
  right: string | null;
}

const ROWS_MAX = 400; // longer routes are compared row by row: the table of all pairs would be too large

export function sideBySide(left: readonly string[], right: readonly string[]): RouteRow[] {
  if (left.length > ROWS_MAX || right.length > ROWS_MAX) {
    const rows = Math.min(Math.max(left.length, right.length), ROWS_MAX);
    return Array.from({ length: rows }, (_, place) => ({ left: left[place] ?? null, right: right[place] ?? null }));
  }
  // The longest common subsequence, from the ends: common[i][j] of left[i…] and right[j…].
  const common = Array.from({ length: left.length + 1 }, () => new Array<number>(right.length + 1).fill(0));
  const at = (i: number, j: number) => common[i]?.[j] ?? 0;
  for (let i = left.length - 1; i >= 0; i--) {
    const row = common[i];
    if (row === undefined) continue;
    for (let j = right.length - 1; j >= 0; j--) {
      row[j] = left[i] === right[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const rows: RouteRow[] = [];
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    const [a, b] = [left[i] ?? null, right[j] ?? null];
    if (a !== null && a === b) {
      rows.push({ left: a, right: b });
      i++;
      j++;
    } else if (b === null || (a !== null && at(i + 1, j) >= at(i, j + 1))) {
      rows.push({ left: a, right: null });
      i++;
    } else {
      rows.push({ left: null, right: b });
      j++;
    }
  }
  return rows;
}
