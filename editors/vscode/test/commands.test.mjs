import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const made = await build({ entryPoints: ["src/commands.ts"], bundle: true, format: "esm", write: false });
const source = Buffer.from(made.outputFiles[0].contents).toString("base64");
const { commandLine, quoted, testFile } = await import(`data:text/javascript;base64,${source}`);

test("actions are commands of noetl", () => {
  assert.equal(commandLine("noetl", "run", "/a/b.yaml"), "noetl run /a/b.yaml");
  assert.equal(commandLine("noetl", "debug", "b.yaml"), "noetl debug b.yaml");
  assert.equal(commandLine("noetl", "check", "b.yaml"), "noetl check b.yaml");
  assert.equal(commandLine("noetl", "test", "b.test.yaml", "it's ok"), "noetl test b.test.yaml --only 'it'\\''s ok'");
  assert.equal(commandLine("C:\\My Tools\\noetl.exe", "run", "b.yaml", undefined, true), '"C:\\My Tools\\noetl.exe" run b.yaml');
});

test("nothing in a name is a command of the shell", () => {
  assert.equal(quoted("$(touch x); `y` 'z'.yaml", false), "'$(touch x); `y` '\\''z'\\''.yaml'");
});

test("the tests of a playbook are beside it", () => {
  assert.equal(testFile("/a/b.yaml"), "/a/b.test.yaml");
  assert.equal(testFile("/a/b.test.yaml"), "/a/b.test.yaml");
});
