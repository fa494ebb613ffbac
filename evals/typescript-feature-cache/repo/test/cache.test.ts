import assert from "node:assert/strict";
import { test } from "node:test";

import { Cache } from "../src/cache.ts";

test("remembers", () => {
  const cache = new Cache<string, number>();
  cache.set("a", 1);
  assert.equal(cache.get("a"), 1);
  assert.equal(cache.get("b"), undefined);
});

test("forgets the oldest", () => {
  const cache = new Cache<string, number>(2);
  for (const [key, value] of [["a", 1], ["b", 2], ["c", 3]] as const) cache.set(key, value);
  assert.deepEqual([cache.has("a"), cache.has("b"), cache.has("c"), cache.size], [false, true, true, 2]);
});

test("computes once", () => {
  const cache = new Cache<string, number>(2);
  let calls = 0;
  const make = (): number => (calls += 1);
  assert.deepEqual([cache.compute("a", make), cache.compute("a", make), calls], [1, 1, 1]);
});
