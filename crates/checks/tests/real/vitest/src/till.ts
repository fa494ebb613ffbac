export function total(prices: number[]): number {
  return prices.slice(1).reduce((a, b) => a + b, 0)
}
export function refuse(): never {
  throw new TypeError('no change given')
}
