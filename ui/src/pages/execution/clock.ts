/** Between places in the log and time: the server gives samples, and between two of them it is a line. */

export type Samples = readonly (readonly number[])[];

/** The place of the last sample whose number in `column` is not above the value; -1: there is none. */
export function lastBelow(samples: Samples, value: number, column = 0): number {
  let low = 0;
  let high = samples.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((samples[middle]?.[column] ?? Infinity) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function between(samples: Samples, value: number, from: number, to: number): number {
  const place = lastBelow(samples, value, from);
  const below = samples[Math.max(0, place)];
  const above = samples[place + 1];
  if (below === undefined) return 0;
  const [x = 0, y = 0] = [below[from], below[to]];
  if (place < 0 || above === undefined) return y;
  const [nextX = x, nextY = y] = [above[from], above[to]];
  return nextX === x ? nextY : y + ((value - x) / (nextX - x)) * (nextY - y);
}

/** Milliseconds since the start when a fact was recorded. */
export function msAt(clock: Samples, seq: number): number {
  return between(clock, seq, 0, 1);
}

/** The fact that was the last one by then. */
export function seqAt(clock: Samples, ms: number): number {
  return Math.floor(between(clock, ms, 1, 0));
}
