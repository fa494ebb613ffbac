// Node's loader asks here for every module; a TypeScript file is given to it without its types.
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import { stripTypes } from "./strip-types.mjs";

export async function load(url, context, next) {
  if (!url.startsWith("file:") || !url.endsWith(".ts")) {
    return next(url, context);
  }
  const file = fileURLToPath(url);
  const source = stripTypes(await readFile(file, "utf8"), file);
  return { format: "module", shortCircuit: true, source };
}
