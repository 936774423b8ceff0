import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { test } from "node:test";

const require = createRequire(import.meta.url);
const { loadWASM, OnigScanner, OnigString } = require("vscode-oniguruma");
const { Registry } = require("vscode-textmate");

// The quoted texts of YAML are all that the templates need around them.
const YAML = {
  scopeName: "source.yaml",
  patterns: [{ name: "string.quoted.double.yaml", begin: '"', end: '"' }],
  repository: {},
};

async function scopes(line) {
  const wasm = await readFile(require.resolve("vscode-oniguruma/release/onig.wasm"));
  await loadWASM(wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength)).catch(() => undefined);
  const own = JSON.parse(await readFile("syntaxes/templates.tmLanguage.json", "utf8"));
  const registry = new Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new OnigScanner(patterns),
      createOnigString: (text) => new OnigString(text),
    }),
    loadGrammar: async (name) => (name === "source.yaml" ? YAML : name === own.scopeName ? own : null),
    getInjections: (name) => (name === "source.yaml" ? [own.scopeName] : undefined),
  });
  const grammar = await registry.loadGrammar("source.yaml");
  const found = grammar.tokenizeLine(line, null).tokens;
  return Object.fromEntries(
    found.map((each) => [line.slice(each.startIndex, each.endIndex).trim(), each.scopes.at(-1)]),
  );
}

test("templates inside of quoted texts have colours", async () => {
  const found = await scopes(`x: "a {{ ctx.total | default('none', 3) }} b"`);
  assert.equal(found["{{"], "punctuation.section.embedded.begin.noetl");
  assert.equal(found.ctx, "variable.language.scope.noetl");
  assert.equal(found.total, "variable.other.property.noetl");
  assert.equal(found.default, "support.function.filter.noetl");
  assert.equal(found["'none'"], "string.quoted.single.noetl");
  assert.equal(found["3"], "constant.numeric.noetl");
  assert.equal(found['b'], "string.quoted.double.yaml");
});

test("statements have colours, and plain text has none", async () => {
  const found = await scopes("{% if workload.a is none %}text{% endif %}");
  assert.equal(found.if, "keyword.control.noetl");
  assert.equal(found.none, "constant.language.noetl");
  assert.equal(found.text, "source.yaml");
});
