import assert from "node:assert/strict";
import { test } from "node:test";

import { Cache } from "../src/cache.ts";

function filled(most?: number): Cache<string, number | undefined> {
  const cache = new Cache<string, number | undefined>(most);
  cache.set("a", 1);
  cache.set("b", 2);
  return cache;
}

function keys(cache: Cache<string, number | undefined>): string {
  return ["a", "b", "c", "d"].filter((key) => cache.has(key)).join("");
}

test("reading is use", () => {
  const cache = filled(2);
  cache.get("a");
  cache.set("c", 3);
  assert.equal(keys(cache), "ac");
});

test("writing is use", () => {
  const cache = filled(2);
  cache.set("a", 10);
  cache.set("c", 3);
  assert.deepEqual([keys(cache), cache.get("a")], ["ac", 10]);
});

test("asking is not", () => {
  const cache = filled(2);
  cache.has("a");
  cache.set("c", 3);
  assert.equal(keys(cache), "bc");
});

test("reading what is not there is nothing", () => {
  const cache = filled(2);
  assert.equal(cache.get("d"), undefined);
  assert.deepEqual([keys(cache), cache.size], ["ab", 2]);
});

test("computing is use, and remembers undefined", () => {
  const cache = filled(3);
  let calls = 0;
  const make = (): undefined => void (calls += 1);
  assert.deepEqual([cache.compute("c", make), cache.compute("c", make), calls], [undefined, undefined, 1]);
  assert.equal(cache.compute("a", () => 99), 1);
  cache.set("d", 4);
  assert.equal(keys(cache), "acd");
});

test("what throws changes nothing", () => {
  const cache = filled(2);
  assert.throws(() => cache.compute("c", () => { throw new Error("no"); }), /no/);
  assert.equal(keys(cache), "ab");
});

test("limits", () => {
  for (const most of [0, -1, 1.5, NaN]) assert.throws(() => new Cache(most), RangeError);
  const cache = filled();
  for (let i = 0; i < 1000; i += 1) cache.set(`${i}`, i);
  assert.equal(cache.size, 1002);
  const one = filled(1);
  assert.equal(keys(one), "b");
});
