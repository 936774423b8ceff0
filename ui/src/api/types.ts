/** The names of the API's shapes, as pages call them. The shapes themselves are generated. */

import type { components } from "./schema";

type Shapes = components["schemas"];

export type Head = Shapes["HeadShown"];
export type HeadsPage = Shapes["HeadsPage"];
export type Status = Head["status"];
export type Glance = Shapes["Glance"];
export type Timeline = Shapes["TimelineDocument"];
export type StepLine = Shapes["StepLine"];
export type RunBar = Shapes["RunBar"];
export type CallBar = Shapes["CallBar"];
export type ArcLine = Shapes["ArcLine"];
export type Show = Shapes["ShowDocument"];
export type Mark = Shapes["Mark"];
export type Moment = Shapes["Moment"];
export type Change = Shapes["Change"];
export type FactShown = Shapes["FactDocument"];
export type FactLine = Shapes["FactLine"];
export type FactsPage = Shapes["FactsPage"];
export type Graph = Shapes["GraphDrawn"];
export type StepDrawn = Shapes["StepDrawn"];
export type ArcDrawn = Shapes["ArcDrawn"];
export type Why = Shapes["Why"];
export type RunWhy = Shapes["RunWhy"];
export type ArcAsked = Shapes["ArcCheck"];
export type GuardAsked = Shapes["GuardCheck"];
export type Failure = Shapes["Failure"];
