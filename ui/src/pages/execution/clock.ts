/** Converts between positions in the log and time, with linear interpolation between the samples of the server. */

export type Samples = readonly (readonly number[])[];

/** The index of the last sample whose number in `column` is at most the value; -1: there is none. */
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
  const index = lastBelow(samples, value, from);
  const below = samples[Math.max(0, index)];
  const above = samples[index + 1];
  if (below === undefined) return 0;
  const [x = 0, y = 0] = [below[from], below[to]];
  if (index < 0 || above === undefined) return y;
  const [nextX = x, nextY = y] = [above[from], above[to]];
  return nextX === x ? nextY : y + ((value - x) / (nextX - x)) * (nextY - y);
}

/** When a fact was recorded, in milliseconds since the start. */
export function msAt(clock: Samples, seq: number): number {
  return between(clock, seq, 0, 1);
}

/** The last fact at that time. */
export function seqAt(clock: Samples, ms: number): number {
  return Math.floor(between(clock, ms, 1, 0));
}
