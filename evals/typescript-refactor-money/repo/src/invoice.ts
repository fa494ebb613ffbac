/** One line of an invoice. */
export interface Line {
  title: string;
  cents: number;
}

function formatAmount(cents: number): string {
  const sign = cents < 0 ? "-" : "";
  const whole = Math.floor(Math.abs(cents) / 100);
  const grouped = String(whole).replace(/\B(?=(\d{3})+$)/g, ",");
  const rest = String(Math.abs(cents) % 100).padStart(2, "0");
  return `${sign}$${grouped}.${rest}`;
}

/** The invoice as text: one row for each line, and the sum. */
export function invoice(lines: Line[]): string {
  const sum = lines.reduce((total, line) => total + line.cents, 0);
  const rows = lines.map((line) => `${line.title}: ${formatAmount(line.cents)}`);
  return [...rows, `Sum: ${formatAmount(sum)}`].join("\n");
}
