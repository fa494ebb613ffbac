import assert from "node:assert/strict";
import { test } from "node:test";

import { pageCount } from "../src/pages.ts";

test("the last page may have room left", () => {
  assert.equal(pageCount(10, 3), 4);
});

test("one entry has one page", () => {
  assert.equal(pageCount(1, 10), 1);
});
