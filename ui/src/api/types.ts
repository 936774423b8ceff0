/** Short names for the types of the API. The types themselves are generated into schema.ts. */

import type { components } from "./schema";

type Schemas = components["schemas"];

export type Head = Schemas["HeadShown"];
export type HeadsPage = Schemas["HeadsPage"];
export type Status = Head["status"];
export type Glance = Schemas["Glance"];
export type Started = Schemas["Told"];
export type Timeline = Schemas["TimelineDocument"];
export type StepLine = Schemas["StepLine"];
export type RunBar = Schemas["RunBar"];
export type CallBar = Schemas["CallBar"];
export type ArcLine = Schemas["ArcLine"];
export type ExecutionDocument = Schemas["ShowDocument"];
export type Moment = Schemas["Moment"];
export type Change = Schemas["Change"];
export type Fact = Schemas["FactShown"];
export type FactLine = Schemas["FactLine"];
export type FactsPage = Schemas["FactsPage"];
export type Why = Schemas["Why"];
export type RunWhy = Schemas["RunWhy"];
export type ArcEvaluation = Schemas["ArcAsked"];
export type GuardEvaluation = Schemas["GuardAsked"];

export type Graph = Schemas["GraphDrawn"];
export type GraphStep = Schemas["StepDrawn"];
export type GraphArc = Schemas["ArcDrawn"];

export type Playbook = Schemas["PlaybookShown"];
export type PlaybookVersion = Schemas["VersionShown"];
export type VersionsPage = Schemas["VersionsPage"];
export type VersionDiff = Schemas["Difference"];
export type RegisteredPlaybook = Schemas["Registered"];
export type PlaybookCheck = Schemas["CheckShown"];
export type PlaybookProblem = Schemas["ProblemShown"];

export type CredentialList = Schemas["CredentialsShown"];
export type StoredCredential = Schemas["Stored"];
export type ToolList = Schemas["ToolsShown"];
export type ToolDocument = Schemas["ToolTold"];
export type ToolField = Schemas["FieldTold"];
export type WorkerStatus = Schemas["WorkersShown"];
export type Health = Schemas["Health"];
