/** An amount of cents for people, such as "-$1,234.05". */
export function formatCents(cents: number): string {
  const sign = cents < 0 ? "-" : "";
  const whole = Math.floor(Math.abs(cents) / 100);
  const grouped = String(whole).replace(/\B(?=(\d{3})+$)/g, ",");
  const rest = String(Math.abs(cents) % 100).padStart(2, "0");
  return `${sign}$${grouped}.${rest}`;
}
