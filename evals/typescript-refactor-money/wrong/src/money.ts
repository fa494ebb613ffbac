/** An amount of cents for people. */
export function formatCents(cents: number): string {
  return "$" + (cents / 100).toFixed(2);
}
