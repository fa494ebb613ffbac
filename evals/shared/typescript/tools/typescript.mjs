// Lets Node run TypeScript without any package: node --import ./tools/typescript.mjs FILE.ts
// A Node that does so by itself is left alone. Types are removed, not checked.
import { register } from "node:module";

if (!process.features.typescript) {
  register("./hooks.mjs", import.meta.url);
}
