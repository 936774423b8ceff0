/** Short names for the types of the API. The types themselves are generated into schema.ts. */

import type { components } from "./schema";

type Schemas = components["schemas"];

export type Head = Schemas["ExecutionSummary"];
export type HeadsPage = Schemas["ExecutionsPage"];
export type Status = Head["status"];
export type PersonWait = Schemas["PersonWait"];
export type Decision = Schemas["PersonDecision"];
export type DecisionList = Schemas["DecisionList"];
export type BulkResponse = Schemas["BulkResponse"];
export type BulkItem = Schemas["BulkItem"];
export type Glance = Schemas["ExecutionOverview"];
export type Started = Schemas["CommandResponse"];
export type Timeline = Schemas["TimelineDocument"];
export type StepLine = Schemas["StepLine"];
export type RunBar = Schemas["RunBar"];
export type CallBar = Schemas["CallBar"];
export type RunningCall = Schemas["RunningCall"];
export type ArcLine = Schemas["ArcLine"];
export type ExecutionDocument = Schemas["ShowDocument"];
export type Moment = Schemas["ExecutionMoment"];
export type Change = Schemas["CtxChange"];
export type Fact = Schemas["FactDocument"];
export type FactLine = Schemas["FactLine"];
export type FactsPage = Schemas["FactsPage"];
export type PrintedLine = Schemas["PrintedLine"];
export type PrintedPage = Schemas["PrintedPage"];
export type Iteration = Schemas["IterationItem"];
export type ExecutionTree = Schemas["ExecutionTree"];
export type ExecutionDifference = Schemas["ExecutionDifference"];
export type StepDifference = Schemas["StepDifference"];
export type PartChange = Schemas["PartChange"];
export type WhatIfResponse = Schemas["WhatIfResponse"];
export type WhatIfItem = Schemas["WhatIfItem"];
export type WhatIfReport = Schemas["WhatIfReport"];
export type TestsResponse = Schemas["TestsResponse"];
export type CaseResult = Schemas["CaseResult"];
export type Coverage = Schemas["CoverageDocument"];
export type ForkPlan = Schemas["ForkPlan"];
export type ForkResponse = Schemas["ForkResponse"];
export type DebugDocument = Schemas["DebugDocument"];
export type Hold = Schemas["HoldDocument"];
export type Scopes = Schemas["ScopesDocument"];
export type Evaluation = Schemas["EvaluationDocument"];
export type IterationsPage = Schemas["IterationsPage"];
export type IterationDetails = Schemas["IterationDetails"];
export type RowsPage = Schemas["RowsPage"];
export type Why = Schemas["Why"];
export type RunWhy = Schemas["RunWhy"];
export type ArcEvaluation = Schemas["ArcCheck"];
export type GuardEvaluation = Schemas["GuardCheck"];

export type Graph = Schemas["PlaybookGraph"];
export type GraphStep = Schemas["GraphStep"];
export type GraphArc = Schemas["GraphArc"];

export type Playbook = Schemas["PlaybookDetails"];
export type PlaybookVersion = Schemas["PlaybookVersionItem"];
export type VersionsPage = Schemas["PlaybookVersionsPage"];
export type VersionDiff = Schemas["PlaybookDiff"];
export type RegisteredPlaybook = Schemas["RegisterResponse"];
export type PlaybookCheck = Schemas["CheckResponse"];
export type PlaybookProblem = Schemas["ProblemDocument"];

export type PlaybookOverview = Schemas["PlaybookOverview"];
export type PlaybookOverviewList = Schemas["PlaybookOverviewList"];
export type CredentialUses = Schemas["CredentialUses"];
export type PlaybookHistory = Schemas["PlaybookHistory"];
export type HistoryColumn = Schemas["HistoryColumn"];
export type HistoryRow = Schemas["HistoryRow"];
export type Rollback = Schemas["RollbackResponse"];

export type AuditPage = Schemas["AuditPage"];
export type AuditEntry = Schemas["AuditItem"];

export type Trigger = Schemas["TriggerItem"];
export type TriggerList = Schemas["TriggersPage"];
export type TriggerDetails = Schemas["TriggerDetails"];
export type Firing = Schemas["FiringItem"];
export type SavedValue = Schemas["SavedItem"];
export type SavedList = Schemas["SavedList"];

export type CredentialList = Schemas["CredentialList"];
export type StoredCredential = Schemas["CredentialStored"];
export type ToolList = Schemas["ToolList"];
export type ToolDocument = Schemas["ToolDetails"];
export type ToolField = Schemas["FieldDocument"];
export type WorkerStatus = Schemas["WorkersResponse"];
export type PoolStatus = Schemas["PoolItem"];
export type RunningFrame = Schemas["RunningFrame"];
export type LimitList = Schemas["LimitList"];
export type LimitStatus = Schemas["LimitItem"];
export type PermitStatus = Schemas["PermitItem"];
export type TriggerCalendar = Schemas["Calendar"];
export type CalendarEntry = Schemas["CalendarEntry"];
export type HealthHistory = Schemas["HealthHistory"];
export type HealthPoint = Schemas["HealthPoint"];
export type AlertStatus = Schemas["AlertItem"];
export type Health = Schemas["HealthResponse"];
