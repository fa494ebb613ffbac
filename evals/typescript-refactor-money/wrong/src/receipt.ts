import { formatCents } from "./money.ts";

/** What is printed when something was paid. */
export function receipt(paid: number, due: number): string {
  return `Paid ${formatCents(paid)}, change ${formatCents(paid - due)}`;
}
