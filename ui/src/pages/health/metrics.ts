/** Parses the response of /metrics (Prometheus text format) and aggregates samples. */

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export function parseMetrics(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    const found = line.startsWith("#") ? null : LINE.exec(line);
    if (found === null) continue;
    const [, name = "", labels = "", value = ""] = found;
    const pairs = Array.from(labels.matchAll(LABEL), (each) => [each[1] ?? "", (each[2] ?? "").replace(/\\(.)/g, "$1")]);
    samples.push({ name, labels: Object.fromEntries(pairs) as Record<string, string>, value: Number(value) });
  }
  return samples;
}

export function sum(samples: Sample[], name: string, labels: Record<string, string> = {}): number {
  return samples
    .filter((each) => each.name === name && Object.entries(labels).every(([key, value]) => each.labels[key] === value))
    .reduce((total, each) => total + each.value, 0);
}

/** The average in seconds; null: no samples. */
export function mean(samples: Sample[], name: string, labels: Record<string, string> = {}): number | null {
  const count = sum(samples, `${name}_count`, labels);
  return count === 0 ? null : sum(samples, `${name}_sum`, labels) / count;
}
