/** One action on many executions: its plan, and its result. */

import { post } from "../../api/client";
import type { BulkItem, BulkResponse } from "../../api/types";
import { type Filter, queryOf } from "./heads";

export type BulkAction = BulkResponse["action"];

export interface Wanted {
  action: BulkAction;
  ids: readonly string[] | null; // null: all that match the filter
  filter: Filter;
}

/** To add, or with null to remove. */
export type LabelChange = Readonly<Record<string, string | null>>;

/** "team=data, -env" as a change: adds team, and removes env. A text says what is wrong. */
export function labelChange(text: string): LabelChange | string {
  const change: Record<string, string | null> = {};
  for (const part of text.split(",").map((each) => each.trim()).filter((each) => each !== "")) {
    const [, key = "", value = ""] = /^([^=]+)=(.*)$/.exec(part) ?? [];
    if (key !== "") change[key.trim()] = value.trim();
    else if (/^-[^=]+$/.test(part)) change[part.slice(1).trim()] = null;
    else return `"${part}": write key=value to add a label, or -key to remove one.`;
  }
  return change;
}

function filterBody(filter: Filter): Record<string, unknown> {
  const { version, label, ...query } = { ...queryOf(filter), status: filter.status };
  const body = { ...query, version: version === null ? null : Number(version), label: label === null ? null : [label] };
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
}

const BULK_MAX = 1000; // executions of one request

export async function planOf({ action, ids, filter }: Wanted, options: object = {}): Promise<BulkResponse> {
  const named = ids?.slice(0, BULK_MAX).map((id) => ({ execution_id: id }));
  const which = named === undefined ? { filter: filterBody(filter) } : { executions: named };
  const plan = await post<BulkResponse>("/executions/bulk", { action, dry_run: true, ...which, ...options });
  return ids === null ? plan : { ...plan, matching: ids.length };
}

/** Does what the plan says, with exactly its executions: the filter may match others by now. */
export function carryOut(plan: BulkResponse, options: object = {}): Promise<BulkResponse> {
  const executions = withResult(plan, "planned").map(({ execution_id, seq }) => ({ execution_id, seq }));
  return post<BulkResponse>("/executions/bulk", { action: plan.action, executions, ...options });
}

export const withResult = ({ items }: BulkResponse, wanted: BulkItem["result"]): BulkItem[] => items.filter((item) => item.result === wanted);

export const executionsText = (count: number): string => `${count.toLocaleString("en")} ${count === 1 ? "execution" : "executions"}`;

/** How many executions stay as they are, for each reason, the most frequent first. */
export function reasonsOf(items: readonly BulkItem[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const { detail = "" } of items) counts.set(detail, (counts.get(detail) ?? 0) + 1);
  return [...counts].sort(([, one], [, other]) => other - one);
}
