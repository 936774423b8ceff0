import { afterEach, expect, test, vi } from "vitest";
import { get, post, urlOf } from "./client";
import { ApiProblem, Unreachable, inWords } from "./problem";
import { heldToken, holdToken } from "./token";

afterEach(() => vi.unstubAllGlobals());

function answering(status: number, body: unknown) {
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(JSON.stringify(body), { status })));
}

test("what is not given is not in the address", () => {
  expect(urlOf("/executions", { status: null, open: undefined, path: "a/b c", limit: 0, before: "" })).toBe(
    "/executions?path=a%2Fb+c&limit=0",
  );
});

test("a refusal is told in the words of the server", async () => {
  answering(409, { detail: "it has ended", code: "not-live", status: 409 });
  const error = await post("/executions/x/cancel").catch((problem: unknown) => problem);
  expect(error).toBeInstanceOf(ApiProblem);
  expect((error as ApiProblem).code).toBe("not-live");
  expect(inWords(error)).toBe("it has ended");
});

test("fields that are wrong are named", async () => {
  answering(400, { detail: "bad", code: "bad-request", fields: [{ name: "limit", message: "at most 1,000" }] });
  expect(inWords(await get("/x").catch((problem: unknown) => problem))).toBe("limit: at most 1,000");
});

test("a token that is not valid any more is dropped", async () => {
  holdToken("noetl_a_b");
  answering(401, { code: "expired-token" });
  await expect(get("/whoami")).rejects.toBeInstanceOf(ApiProblem);
  expect(heldToken()).toBeNull();
});

test("no answer is another thing than a refusal", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("refused")));
  await expect(get("/x")).rejects.toBeInstanceOf(Unreachable);
});
