import assert from "node:assert/strict";
import { test } from "node:test";

import { capitalise, truncate } from "../src/text.ts";

test("capitalise", () => {
  assert.equal(capitalise("rope"), "Rope");
});

test("a short text stays", () => {
  assert.equal(truncate("hello", 10), "hello");
});

test("a long text is cut", () => {
  assert.equal(truncate("hello world", 6), "hello…");
});
