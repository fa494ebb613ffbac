/** Remembers what was computed for a key. */
export class Cache<K, V> {
  private readonly entries = new Map<K, V>();

  /** What is remembered for the key. */
  get(key: K): V | undefined {
    return this.entries.get(key);
  }

  /** Whether something is remembered for the key. */
  has(key: K): boolean {
    return this.entries.has(key);
  }

  /** Remembers a value. */
  set(key: K, value: V): void {
    this.entries.set(key, value);
  }

  /** How many are remembered. */
  get size(): number {
    return this.entries.size;
  }
}
