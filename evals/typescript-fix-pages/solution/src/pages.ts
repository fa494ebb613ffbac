/** How many pages there are when each page shows `size` entries. */
export function pageCount(total: number, size: number): number {
  return Math.ceil(total / size);
}
