/** The names of the API's shapes, as pages call them. The shapes themselves are generated. */

import type { components } from "./schema";

type Shapes = components["schemas"];

export type Head = Shapes["ExecutionSummary"];
export type HeadsPage = Shapes["ExecutionsPage"];
export type Status = Head["status"];
export type Glance = Shapes["ExecutionOverview"];
export type Timeline = Shapes["TimelineDocument"];
export type StepLine = Shapes["StepLine"];
export type RunBar = Shapes["RunBar"];
export type CallBar = Shapes["CallBar"];
export type ArcLine = Shapes["ArcLine"];
export type Show = Shapes["ShowDocument"];
export type Mark = Shapes["TimelineMark"];
export type Moment = Shapes["ExecutionMoment"];
export type Change = Shapes["CtxChange"];
export type FactShown = Shapes["FactShown"];
export type FactLine = Shapes["FactLine"];
export type FactsPage = Shapes["FactsPage"];
export type Graph = Shapes["PlaybookGraph"];
export type StepDrawn = Shapes["GraphStep"];
export type ArcDrawn = Shapes["GraphArc"];
export type Why = Shapes["Why"];
export type RunWhy = Shapes["RunWhy"];
export type ArcAsked = Shapes["ArcAsked"];
export type GuardAsked = Shapes["GuardAsked"];
export type Failure = Shapes["Failure"];
