/** What is printed when something was paid. */
export function receipt(paid: number, due: number): string {
  return `Paid ${show(paid)}, change ${show(paid - due)}`;
}

function show(cents: number): string {
  const minus = cents < 0;
  const amount = Math.abs(cents);
  const dollars = String(Math.floor(amount / 100)).replace(/\B(?=(\d{3})+$)/g, ",");
  return (minus ? "-" : "") + "$" + dollars + "." + String(amount % 100).padStart(2, "0");
}
