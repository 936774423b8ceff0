/** All requests to the API go through here: it proves that this page sends them, parses JSON and turns refusals into errors. */

import { ApiProblem, Unreachable, problemFrom, wasAborted } from "./problem";
import { sessionChanged, sessionVersion } from "./session";

export type Query = Record<string, string | number | boolean | null | undefined>;

export interface RequestOptions {
  method?: string;
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  signIn?: boolean; // the request signs in or asks for the session: 401 is an ordinary answer
}

export function urlOf(path: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") search.set(key, String(value));
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

export async function send(path: string, options: RequestOptions = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  headers.set("X-NoETL-CSRF", "1"); // A page of another site cannot send this header.
  const session = sessionVersion();
  let body: BodyInit | undefined;
  if (typeof options.body === "string") body = options.body;
  else if (options.body !== undefined) {
    body = JSON.stringify(options.body);
    headers.set("Content-Type", "application/json");
  }
  const method = options.method ?? (options.body === undefined ? "GET" : "POST");
  let response: Response;
  try {
    response = await fetch(urlOf(path, options.query), { method, headers, body, signal: options.signal ?? null });
  } catch (error) {
    throw wasAborted(error) ? error : new Unreachable(error);
  }
  if (response.ok) return response;
  const problem = await problemFrom(response);
  // The session has ended. Loading it again shows the sign-in page.
  if (problem.status === 401 && options.signIn !== true && session === sessionVersion()) sessionChanged(problem);
  throw problem;
}

export async function request<T>(path: string, options: RequestOptions = {}): Promise<T> {
  const response = await send(path, options);
  if (response.status === 204) return undefined as T;
  return (await response.json()) as T;
}

export function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return request<T>(path, signal === undefined ? { query } : { query, signal });
}

export function post<T>(path: string, body: unknown = {}, options: RequestOptions = {}): Promise<T> {
  return request<T>(path, { ...options, method: "POST", body });
}

export function isNotFound(error: unknown): boolean {
  return error instanceof ApiProblem && error.status === 404;
}
