import { expect, test } from "vitest";
import { graphOf, runBar, sample, stepLine, timelineOf } from "../../testing/timelines";
import { msAt, seqAt } from "./clock";
import { overlayAt } from "./overlayAt";
import { idleGaps, marksOf, scaleOf } from "./timescale";

test("time is interpolated between samples and constant outside", () => {
  const clock = [[1, 0], [11, 1000], [12, 5000]];
  expect(msAt(clock, 6)).toBe(500);
  expect(msAt(clock, 99)).toBe(5000);
  expect(seqAt(clock, 1000)).toBe(11);
  expect(seqAt(clock, 500)).toBe(6);
  expect(seqAt(clock, 99_999)).toBe(12);
});

test("each step has the state that it had after the fact", () => {
  const timeline = timelineOf({
    steps: [
      stepLine("start", [sample(3, { tokens: 1 }), sample(4, { scheduled: 1 }), sample(5, { running: 1 }), sample(7, { ok: 1 })]),
      stepLine("a", [sample(8, { tokens: 1, waiting: 1 }), sample(9, { running: 1, total: 10, done: 4, lost: 1, retries: 2 })]),
    ],
  });
  const tones = (seq: number) => overlayAt(timeline, graphOf(), seq).steps;
  expect(tones(2).size).toBe(0);
  expect(tones(3).get("start")).toMatchObject({ tone: "waiting", tokens: 1, text: "a token has arrived" });
  expect(tones(4).get("start")).toMatchObject({ tone: "waiting", text: "waits for a worker" });
  expect(tones(6).get("start")?.tone).toBe("running");
  expect(tones(8).get("start")?.tone).toBe("ok");
  expect(tones(8).get("a")).toMatchObject({ tone: "waiting", text: "waits to be admitted" });
  expect(tones(10).get("a")).toMatchObject({ tone: "running", retries: 2, progress: { done: 4, lost: 1, total: 10 } });
});

test("a handled failure differs from an unhandled one", () => {
  const at = (counts: Record<string, number>) =>
    overlayAt(timelineOf({ steps: [stepLine("a", [sample(1, counts)])] }), graphOf(), 1).steps.get("a")?.tone;
  expect(at({ failed: 1 })).toBe("error");
  expect(at({ failed: 1, handled: 1 })).toBe("handled");
  expect(at({ failed: 1, handled: 1, ok: 1 })).toBe("ok");
  expect(at({ stopped: 1 })).toBe("stopped");
});

test("the reason of a wait is known for the present only", () => {
  const line = stepLine("a", [sample(5, { running: 1, parked: 1 })], [runBar("a#1", { why: "waits for the signal go" })]);
  const timeline = timelineOf({ steps: [line], status: "running" });
  expect(overlayAt(timeline, graphOf(), 10).steps.get("a")?.text).toBe("waits for the signal go");
  expect(overlayAt(timeline, graphOf(), 6).steps.get("a")?.text).toBe("waits");
});

test("the running task is known for the present only", () => {
  const call = { id: "a#1/2", task: "fetch", since: "2026-01-01T00:00:00Z" };
  const line = stepLine("a", [sample(5, { running: 1 })], [runBar("a#1", { running: [call] })]);
  const timeline = timelineOf({ steps: [line], status: "running" });
  expect(overlayAt(timeline, graphOf(), 10).steps.get("a")?.text).toBe("running fetch");
  expect(overlayAt(timeline, graphOf(), 6).steps.get("a")?.text).toBe("running");
});

test("an arc is identified by its place", () => {
  const timeline = timelineOf({
    arcs: [
      { step: "start", place: 0, to: "a", changes: [[5, 1, 0], [9, 2, 0]] },
      { step: "start", place: 1, to: null, changes: [[5, 0, 1]] },
      { step: "a", place: 0, to: "end", changes: [[8, 1, 0]] },
    ],
    steps: [stepLine("start", [sample(3, { tokens: 1 })])],
  });
  const { arcs } = overlayAt(timeline, graphOf(), 8);
  expect(arcs).toEqual([
    { fired: 1, refused: 0 }, { fired: 1, refused: 0 }, { fired: 0, refused: 1 }, { fired: 1, refused: 0 }, { fired: 0, refused: 0 },
  ]);
});

test("of two arcs to the same step only the one that fired is marked", () => {
  const arcs = [{ step: "start", place: 0, to: null, changes: [[5, 0, 1]] }, { step: "start", place: 1, to: "a", changes: [[5, 1, 0]] }];
  const graph = graphOf([[0, 1], [1, 2], [1, 2]]);
  expect(overlayAt(timelineOf({ arcs }), graph, 8).arcs.slice(1)).toEqual([{ fired: 0, refused: 1 }, { fired: 1, refused: 0 }]);
});

test("arcs of a template with several targets are identified by their target", () => {
  const arcs = [{ step: "start", place: 1, to: "b", changes: [[5, 1, 0]] }];
  const graph = graphOf([[1, 2], [1, 4], [1, 3]]);
  expect(overlayAt(timelineOf({ arcs }), graph, 8).arcs.map((arc) => arc.fired)).toEqual([0, 0, 1]);
});

test("a finished step without arcs leads to the end", () => {
  const graph = graphOf([[2, 4]]);
  const [only] = graph.arcs;
  if (only) only.implied = true;
  const timeline = timelineOf({ steps: [stepLine("a", [sample(3, { running: 1 }), sample(5, { ok: 1 })])] });
  expect([4, 5].map((seq) => overlayAt(timeline, graph, seq).arcs[0]?.fired)).toEqual([0, 1]);
});

test("no arc is marked before the start", () => {
  expect(overlayAt(timelineOf(), graphOf(), 2).arcs[0]).toEqual({ fired: 0, refused: 0 });
});

test("a long idle time is a break of fixed width", () => {
  const timeline = timelineOf({
    clock: [[1, 0], [4, 1000], [5, 61_000], [6, 62_000]],
    steps: [
      stepLine("a", [sample(1, { running: 1 }), sample(4, { running: 1, parked: 1 }), sample(5, { running: 1 }), sample(6, { ok: 1 })]),
    ],
  });
  const gaps = idleGaps(timeline, 62_000);
  expect(gaps).toContainEqual({ from: 1000, to: 61_000 });
  const scale = scaleOf(gaps, 62_000);
  expect(scale.gaps).toEqual([{ from: 1000, to: 61_000 }]);
  expect(scale.x(61_000) - scale.x(1000)).toBeCloseTo(0.065);
  expect(scale.x(1000)).toBeCloseTo((1 - 0.065) / 2);
  expect(scale.ms(scale.x(500))).toBeCloseTo(500);
  expect(scale.x(62_000)).toBe(1);
});

test("a waiting execution has a break at the end", () => {
  const line = stepLine("a", [sample(1, { running: 1 }), sample(4, { running: 1, parked: 1 })]);
  const timeline = timelineOf({ status: "running", clock: [[1, 0], [4, 1000]], steps: [line] });
  expect(idleGaps(timeline, 60_000)).toContainEqual({ from: 1000, to: 60_000 });
  expect(idleGaps({ ...timeline, status: "ok" }, 60_000)).not.toContainEqual({ from: 1000, to: 60_000 });
});

test("the times on the axis are all different, also near a break", () => {
  const labels = (from: number, to: number, end: number) => marksOf(scaleOf([{ from, to }], end)).map((mark) => mark.label);
  expect(labels(16, 12_016, 12_040)).toEqual(["0 ms", "11 ms", "12.0 s"]);
  expect(labels(3, 12_700, 12_700)).toEqual(["0 ms", "2 ms", "12.7 s"]);
  expect(labels(0, 0, 1000)).toEqual(["0 ms", "250 ms", "500 ms", "750 ms", "1.00 s"]);
});

test("a loop with failed iterations is not done", () => {
  const at = (counts: Record<string, number>) =>
    overlayAt(timelineOf({ steps: [stepLine("a", [sample(1, { ok: 1, total: 3, ...counts })])] }), graphOf(), 10).steps.get("a")?.tone;
  expect(at({ done: 3 })).toBe("ok");
  expect(at({ done: 2, lost: 1 })).toBe("handled");
  expect(at({ lost: 3 })).toBe("error");
});

test("a step whose runs cannot advance waits, and says why", () => {
  const why = 'waits for a worker: the pool "gpu" has none';
  const line = stepLine("a", [sample(5, { running: 1 })], [runBar("a#1", { status: "running", why })]);
  const state = overlayAt(timelineOf({ steps: [line], status: "running" }), graphOf(), 10).steps.get("a");
  expect(state).toMatchObject({ tone: "waiting", text: why });
});

test("a step runs while some of its iterations wait for the share of the execution", () => {
  const why = 'waits for a slot: the execution holds 28 of the 32 slots of the pool "gpu", its share (NOETL_SLOT_RESERVE)';
  const stateOf = (status: string) => {
    const line = stepLine("a", [sample(5, { [status]: 1 })], [runBar("a#1", { status, why })]);
    return overlayAt(timelineOf({ steps: [line], status: "running" }), graphOf(), 10).steps.get("a");
  };
  expect(stateOf("running")).toMatchObject({ tone: "running", text: "running" });
  expect(stateOf("scheduled")).toMatchObject({ tone: "waiting", text: why });
});
