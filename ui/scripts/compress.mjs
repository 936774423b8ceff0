// Puts packed copies beside the files of the bundle, so that the server never packs anything itself.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const worthIt = /\.(js|css|html|svg|json)$/;
const smallest = 1024; // below this a packed copy saves nothing

const folder = process.argv[2];
const files = readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && worthIt.test(entry.name))
  .map((entry) => join(entry.parentPath, entry.name));

for (const file of files) {
  const body = readFileSync(file);
  if (body.length < smallest) continue;
  writeFileSync(`${file}.gz`, gzipSync(body, { level: 9 }));
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
  writeFileSync(`${file}.br`, brotliCompressSync(body, { params }));
}
