import assert from "node:assert/strict";
import { test } from "node:test";

import { capitalise, truncate } from "../src/text.ts";

test("a text of just that length stays", () => {
  assert.equal(truncate("hello", 5), "hello");
});

test("the result has that length", () => {
  for (const length of [2, 3, 10]) assert.equal(truncate("a rather long text", length).length, length);
  assert.equal(truncate("abc", 1), "…");
});

test("nothing", () => {
  assert.equal(truncate("", 3), "");
});

test("the rest stays", () => {
  assert.equal(capitalise(""), "");
});
