import assert from "node:assert/strict";
import { test } from "node:test";

import { pageCount } from "../src/pages.ts";

test("full pages", () => {
  assert.equal(pageCount(9, 3), 3);
});

test("no entries", () => {
  assert.equal(pageCount(0, 5), 0);
});

test("one more than full", () => {
  assert.equal(pageCount(101, 10), 11);
});

test("pages of one", () => {
  assert.equal(pageCount(7, 1), 7);
});
