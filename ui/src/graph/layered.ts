/** A layered layout: dagre ranks and orders the steps; the arcs are routed here, with right angles.
 *
 * Everything is computed from top to bottom. For a net from left to right, both axes are exchanged before and after.
 */

import { Graph as Dagre, layout as runDagre } from "@dagrejs/dagre";
import type { Graph } from "../api/types";
import { type Direction, type Layout, type Point, boundsOf } from "./layout";
import { labelOf, labelSize, sizeOf, type Size } from "./measure";
import { fittingZoom, panesOf } from "./view";

const STEP_GAP = 28; // between two steps of a rank
const ARC_GAP = 18; // between two arcs of a rank
const PORT_GAP = 14; // between two arcs at one side of a step
const TURN_GAP = 12; // between two arcs that turn between the same ranks
const CORNER = 10; // without arcs, at both ends of a side of a step
const NEAR = 5; // lines at a smaller distance look like one

/** A place on a rank: of a step or a label, or where an arc passes between them. Sides of steps have several. */
interface Stop {
  x: number; // of its centre
  y: number; // as dagre placed it: the same for all stops of a rank
}

interface Placed extends Stop, Size {}

/** An arc, in the direction of the ranks. `stops` begin and end at the sides of two steps. */
interface Route {
  above: Placed;
  below: Placed;
  stops: Stop[];
  label: Placed | null;
  isBack: boolean; // it leads from `below` to `above`
}

/** The part of a route between two ranks that changes x. */
interface Turn {
  from: number;
  to: number;
  slot: number; // from 1, downwards
}

type Net = Dagre<object, Placed, Placed & { points: Point[]; weight: number; labelpos: "c" }>;

interface Rank {
  y: number; // of its centre, as drawn
  height: number;
  turns: Map<Stop, Turn>; // below it
  gap: number; // below it
}

const COMFORTABLE_ZOOM = 0.8; // a net that fits like this is drawn from left to right

/** By the shape of the pane: the direction in which the net fits, or else fills fewer panes. `room`: its size. */
export function layoutForRoom(graph: Graph, room: Size): Layout {
  const right = layeredLayout(graph, "RIGHT");
  const wide = boundsOf(graph, right);
  if (fittingZoom(wide, room) >= COMFORTABLE_ZOOM) return right;
  const down = layeredLayout(graph, "DOWN");
  const high = boundsOf(graph, down);
  const [panesRight, panesDown] = [panesOf(wide, room), panesOf(high, room)];
  if (panesRight !== panesDown) return panesRight < panesDown ? right : down;
  return fittingZoom(wide, room) >= fittingZoom(high, room) ? right : down;
}

export function layeredLayout(graph: Graph, direction: Direction): Layout {
  const isDown = direction === "DOWN";
  const turned = (size: Size): Size => (isDown ? size : { width: size.height, height: size.width });
  const point = (x: number, y: number): Point => (isDown ? { x, y } : { x: y, y: x });
  const { steps, routes } = placedByDagre(graph, turned);
  const filled = new Set([...steps, ...labelsOf(routes)].map(({ y }) => y)); // Arcs need no stop on the other ranks.
  for (const route of routes) route.stops = route.stops.filter(({ y }) => filled.has(y));
  for (const step of steps) spreadPorts(step, routes);
  const ranks = ranksOf(steps, routes, isDown ? [30, 18] : [44, 22]);
  const y = (stop: Stop) => ranks.get(stop.y)?.y ?? 0;
  return {
    steps: graph.steps.map((step, index) => {
      const { x, width, height, ...rest } = steps[index] ?? { x: 0, y: 0, width: 0, height: 0 };
      return { ...point(x - width / 2, y({ x, ...rest }) - height / 2), ...sizeOf(step) };
    }),
    arcs: routes.map((route) => {
      const points = route.above === route.below ? selfArc(route, y(route.above)) : routePoints(route, ranks);
      if (route.isBack) points.reverse();
      return {
        points: points.map((each) => point(each.x, each.y)),
        label: route.label && point(route.label.x, y(route.label)),
      };
    }),
  };
}

function placedByDagre(graph: Graph, turned: (size: Size) => Size): { steps: Placed[]; routes: Route[] } {
  const dagre: Net = new Dagre({ multigraph: true });
  dagre.setGraph({ nodesep: STEP_GAP, edgesep: ARC_GAP });
  for (const step of graph.steps) dagre.setNode(`${step.place}`, { x: 0, y: 0, ...turned(sizeOf(step)) });
  const arcs = graph.arcs.map((arc, index) => {
    const label = labelOf(arc);
    const size = label === null ? { width: 0, height: 0 } : turned(labelSize(label));
    const weight = arc.carries === "failure" || arc.dead || arc.implied || arc.back ? 1 : 3; // Heavy arcs are kept short.
    const [above, below] = arc.back ? [arc.to, arc.start] : [arc.start, arc.to];
    const ends = [`${above}`, `${below}`, `${index}`] as const;
    dagre.setEdge(ends[0], ends[1], { x: 0, y: 0, ...size, weight, labelpos: "c", points: [] }, ends[2]);
    return { ends, isLabelled: label !== null, isBack: arc.back };
  });
  runDagre(dagre);
  mirrorIfReversed(graph, dagre);
  const routes = arcs.map(({ ends, isLabelled, isBack }): Route => {
    const [start, to, edge] = [dagre.node(ends[0]), dagre.node(ends[1]), dagre.edge(...ends)];
    const between = edge.points.slice(1, -1);
    const label = isLabelled || start === to ? edge : null;
    if (start.y <= to.y) return { above: start, below: to, stops: [{ ...start }, ...between, { ...to }], label, isBack };
    return { above: to, below: start, stops: [{ ...to }, ...between.reverse(), { ...start }], label, isBack: !isBack };
  });
  return { steps: graph.steps.map((step) => dagre.node(`${step.place}`)), routes };
}

/** Dagre finds an order with few crossings; its mirror image has as few. Takes the one nearer to the order of the playbook. */
function mirrorIfReversed(graph: Graph, dagre: Net): void {
  const onward = graph.arcs.filter(({ back }) => !back);
  const inOrder = onward.map((arc, index) => {
    const before = onward[index - 1];
    return before?.start === arc.start ? Math.sign(dagre.node(`${arc.to}`).x - dagre.node(`${before.to}`).x) : 0;
  });
  if (inOrder.reduce<number>((sum, sign) => sum + sign, 0) >= 0) return;
  const boxes = [...dagre.nodes().map((each) => dagre.node(each)), ...dagre.edges().flatMap((each) => [dagre.edge(each), ...dagre.edge(each).points])];
  for (const box of new Set(boxes)) box.x = -box.x;
}

/** Arcs leave and enter a step straight where they can, in the order of their other ends. */
function spreadPorts(step: Placed, routes: Route[]): void {
  const others = routes.filter((route) => route.above !== route.below);
  const leaving = others.filter((route) => route.above === step).map(({ stops }) => stops.slice(0, 2));
  const entering = others.filter((route) => route.below === step).map(({ stops }) => stops.slice(-2).reverse());
  for (const side of [leaving, entering]) {
    const room = Math.max(0, step.width / 2 - CORNER);
    const [low, high] = [step.x - room, step.x + room];
    const gap = Math.min(PORT_GAP, (2 * room) / Math.max(1, side.length - 1));
    const ports = side.flatMap(([port, next]) => (port && next ? [{ port, next }] : [])).sort((one, other) => one.next.x - other.next.x);
    let least = low;
    for (const { port, next } of ports) {
      const wanted = next.x >= low && next.x <= high ? next.x : step.x + (Math.sign(next.x - step.x) * room) / 2;
      port.x = Math.max(least, wanted);
      least = port.x + gap;
    }
    let most = high;
    for (const { port } of ports.reverse()) {
      port.x = Math.min(most, port.x);
      most = port.x - gap;
    }
  }
}

const labelsOf = (routes: Route[]): Placed[] => routes.flatMap(({ label }) => (label === null ? [] : [label]));

/** By the y of dagre. */
function ranksOf(steps: Placed[], routes: Route[], [stepGap, labelGap]: [number, number]): Map<number, Rank> {
  const boxes = [...steps, ...labelsOf(routes)];
  const ordered = [...new Set(boxes.map(({ y }) => y))].sort((one, other) => one - other);
  const ranks = new Map(ordered.map((y): [number, Rank] => [y, { y, height: 0, turns: new Map(), gap: labelGap }]));
  for (const { y, height } of boxes) {
    const rank = ranks.get(y);
    if (rank) rank.height = Math.max(rank.height, height);
  }
  for (const route of routes) {
    for (const [index, stop] of route.stops.entries()) {
      const next = route.stops[index + 1];
      if (next && Math.abs(next.x - stop.x) >= 1) ranks.get(stop.y)?.turns.set(stop, { from: stop.x, to: next.x, slot: 1 });
    }
  }
  const withSteps = new Set(steps.map(({ y }) => y));
  let [top, before] = [0, null as Rank | null];
  for (const [index, y] of ordered.entries()) {
    const rank = ranks.get(y);
    if (!rank) continue;
    const slots = sortTurns([...rank.turns.values()]);
    const next = ordered[index + 1];
    const least = withSteps.has(y) && next !== undefined && withSteps.has(next) ? stepGap : labelGap;
    rank.gap = Math.max(least, (slots + 1) * TURN_GAP);
    rank.y = top + (before?.gap ?? 0) + rank.height / 2;
    top = rank.y + rank.height / 2;
    before = rank;
  }
  return ranks;
}

const covers = ({ from, to }: Turn, x: number): boolean => x > Math.min(from, to) - NEAR && x < Math.max(from, to) + NEAR;

/** The crossings of two lines if `upper` turns above `lower`; lines on one another are worse. */
function crossings(upper: Turn, lower: Turn): number {
  return Number(covers(upper, lower.from)) + Number(covers(lower, upper.to)) + (Math.abs(lower.from - upper.to) < NEAR ? 4 : 0);
}

/** Gives turns that overlap different slots, so that few lines cross; returns the number of slots. */
function sortTurns(turns: Turn[]): number {
  const score = new Map(
    turns.map((turn) => [turn, turns.reduce((sum, other) => sum + crossings(turn, other) - crossings(other, turn), 0)]),
  );
  turns.sort((one, other) => (score.get(one) ?? 0) - (score.get(other) ?? 0));
  for (const [index, turn] of turns.entries()) {
    const above = turns.slice(0, index).filter((each) => [each.from, each.to].some((x) => covers(turn, x)) || covers(each, turn.from));
    turn.slot = 1 + Math.max(0, ...above.map(({ slot }) => slot));
  }
  return Math.max(0, ...turns.map(({ slot }) => slot));
}

function routePoints(route: Route, ranks: Map<number, Rank>): Point[] {
  const { above, below, stops } = route;
  const corners = stops.flatMap((stop) => {
    const rank = ranks.get(stop.y);
    const turn = rank?.turns.get(stop);
    if (!rank || !turn) return [];
    const slots = Math.max(...[...rank.turns.values()].map(({ slot }) => slot));
    const y = rank.y + rank.height / 2 + (rank.gap * turn.slot) / (slots + 1);
    return [{ x: turn.from, y }, { x: turn.to, y }];
  });
  const start = { x: stops[0]?.x ?? above.x, y: (ranks.get(above.y)?.y ?? 0) + above.height / 2 };
  const end = { x: stops.at(-1)?.x ?? below.x, y: (ranks.get(below.y)?.y ?? 0) - below.height / 2 };
  return [start, ...corners, end];
}

/** From a step to itself: a loop beside it, through its label. */
function selfArc({ above, label }: Route, y: number): Point[] {
  const far = label?.x ?? above.x + above.width;
  const side = above.x + (Math.sign(far - above.x) * above.width) / 2;
  const [upper, lower] = [y - above.height / 4, y + above.height / 4];
  return [{ x: side, y: lower }, { x: far, y: lower }, { x: far, y: upper }, { x: side, y: upper }];
}
