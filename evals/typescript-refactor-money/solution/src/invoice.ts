import { formatCents } from "./money.ts";

/** One line of an invoice. */
export interface Line {
  title: string;
  cents: number;
}

/** The invoice as text: one row for each line, and the sum. */
export function invoice(lines: Line[]): string {
  const sum = lines.reduce((total, line) => total + line.cents, 0);
  const rows = lines.map((line) => `${line.title}: ${formatCents(line.cents)}`);
  return [...rows, `Sum: ${formatCents(sum)}`].join("\n");
}
