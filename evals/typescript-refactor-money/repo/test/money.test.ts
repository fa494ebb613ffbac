import assert from "node:assert/strict";
import { test } from "node:test";

import { invoice } from "../src/invoice.ts";
import { receipt } from "../src/receipt.ts";

test("an invoice", () => {
  assert.equal(invoice([{ title: "Rope", cents: 1250 }]), "Rope: $12.50\nSum: $12.50");
});

test("a receipt", () => {
  assert.equal(receipt(2000, 1250), "Paid $20.00, change $7.50");
});

test("the module", async () => {
  const { formatCents } = await import("../src/money.ts");
  assert.equal(formatCents(5), "$0.05");
});
