import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { invoice } from "../src/invoice.ts";
import { formatCents } from "../src/money.ts";
import { receipt } from "../src/receipt.ts";

const source = (name: string): string => readFileSync(new URL(`../src/${name}.ts`, import.meta.url), "utf8");

test("amounts", () => {
  const amounts = [0, 7, 99, 100, 123456, 100000000, -5, -123456];
  const shown = ["$0.00", "$0.07", "$0.99", "$1.00", "$1,234.56", "$1,000,000.00", "-$0.05", "-$1,234.56"];
  assert.deepEqual(amounts.map(formatCents), shown);
});

test("invoices stay", () => {
  const lines = [{ title: "Boat", cents: 12345678 }, { title: "Discount", cents: -345678 }];
  assert.equal(invoice(lines), "Boat: $123,456.78\nDiscount: -$3,456.78\nSum: $120,000.00");
});

test("receipts stay", () => {
  assert.equal(receipt(100, 250), "Paid $1.00, change -$1.50");
  assert.equal(receipt(5000000, 0), "Paid $50,000.00, change $50,000.00");
});

test("both use the module", () => {
  for (const name of ["invoice", "receipt"]) assert.match(source(name), /formatCents\(/);
});

test("the copies are gone", () => {
  for (const name of ["invoice", "receipt"]) assert.doesNotMatch(source(name), /padStart|toFixed|Math\.abs|Intl|\/ 100/);
});
