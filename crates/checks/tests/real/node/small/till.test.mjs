import assert from "node:assert";
import { describe, test } from "node:test";

const total = (a, b) => a + a;

describe("till", () => {
  test("adds up", () => assert.strictEqual(total(2, 3), 5));
  test("doubles", () => assert.strictEqual(total(2, 2), 4));
  test("later", { skip: true }, () => {});
});
