import { afterEach, expect, test, vi } from "vitest";
import { get, post, urlOf } from "./client";
import { ApiProblem, Unreachable, errorMessage } from "./problem";
import { sessionError, sessionVersion } from "./session";

afterEach(() => vi.unstubAllGlobals());

function respondWith(status: number, body: unknown) {
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(JSON.stringify(body), { status })));
}

test("empty parameters are left out of the URL", () => {
  expect(urlOf("/executions", { status: null, open: undefined, path: "a/b c", limit: 0, before: "" })).toBe(
    "/executions?path=a%2Fb+c&limit=0",
  );
});

test("a refusal shows the message of the server", async () => {
  respondWith(409, { detail: "it has ended", code: "not-live", status: 409 });
  const error = await post("/executions/x/cancel").catch((problem: unknown) => problem);
  expect(error).toBeInstanceOf(ApiProblem);
  expect((error as ApiProblem).code).toBe("not-live");
  expect(errorMessage(error)).toBe("it has ended");
});

test("invalid fields are named", async () => {
  respondWith(400, { detail: "bad", code: "bad-request", fields: [{ name: "limit", message: "at most 1,000" }] });
  expect(errorMessage(await get("/x").catch((problem: unknown) => problem))).toBe("limit: at most 1,000");
});

test("a session that has ended is noticed once", async () => {
  const before = sessionVersion();
  respondWith(401, { code: "no-session", detail: "the session has ended" });
  const refused = await Promise.allSettled([get("/executions"), get("/tools")]);
  expect(refused.map((each) => each.status)).toEqual(["rejected", "rejected"]);
  expect(sessionVersion()).toBe(before + 1);
  expect(errorMessage(sessionError())).toBe("the session has ended");
});

test("every request has the header that pages of other sites cannot send", async () => {
  const sent: Headers[] = [];
  vi.stubGlobal("fetch", (_url: string, init: RequestInit) => {
    sent.push(new Headers(init.headers));
    return Promise.resolve(new Response("{}"));
  });
  await post("/executions", {});
  expect(sent.map((headers) => headers.get("X-NoETL-CSRF"))).toEqual(["1"]);
  expect(sent.map((headers) => headers.has("Authorization"))).toEqual([false]);
});

test("no response is different from a refusal", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("refused")));
  await expect(get("/x")).rejects.toBeInstanceOf(Unreachable);
});
