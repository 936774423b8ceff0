/** The one door to the API: adds the token, reads JSON, and turns refusals into errors. */

import { ApiProblem, Unreachable, problemOf, wasAborted } from "./problem";
import { dropToken, heldToken } from "./token";

export type Query = Record<string, string | number | boolean | null | undefined>;

export interface Asked {
  method?: string;
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export function urlOf(path: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") search.set(key, String(value));
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

export async function send(path: string, asked: Asked = {}): Promise<Response> {
  const headers = new Headers(asked.headers);
  const token = heldToken();
  if (token !== null) headers.set("Authorization", `Bearer ${token}`);
  let body: BodyInit | undefined;
  if (typeof asked.body === "string") body = asked.body;
  else if (asked.body !== undefined) {
    body = JSON.stringify(asked.body);
    headers.set("Content-Type", "application/json");
  }
  const method = asked.method ?? (asked.body === undefined ? "GET" : "POST");
  let answer: Response;
  try {
    answer = await fetch(urlOf(path, asked.query), { method, headers, body, signal: asked.signal ?? null });
  } catch (error) {
    throw wasAborted(error) ? error : new Unreachable(error);
  }
  if (answer.ok) return answer;
  const problem = await problemOf(answer);
  // Only a token that we hold can have become a wrong one: dropping it brings up the page that asks.
  if (problem.status === 401 && token !== null && token === heldToken()) dropToken(problem);
  throw problem;
}

export async function ask<T>(path: string, asked: Asked = {}): Promise<T> {
  const answer = await send(path, asked);
  if (answer.status === 204) return undefined as T;
  return (await answer.json()) as T;
}

export function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return ask<T>(path, signal === undefined ? { query } : { query, signal });
}

export function post<T>(path: string, body: unknown = {}, asked: Asked = {}): Promise<T> {
  return ask<T>(path, { ...asked, method: "POST", body });
}

export function isNotFound(error: unknown): boolean {
  return error instanceof ApiProblem && error.status === 404;
}
