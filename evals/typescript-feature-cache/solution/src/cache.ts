/** Remembers what was computed for a key. */
export class Cache<K, V> {
  private readonly entries = new Map<K, V>();
  private readonly most: number;

  /** A cache that forgets what was not used for the longest time when there are more than so many entries. */
  constructor(most: number = Infinity) {
    if (most !== Infinity && (!Number.isInteger(most) || most < 1)) {
      throw new RangeError("a cache has room for at least one entry");
    }
    this.most = most;
  }

  /** What is remembered for the key. */
  get(key: K): V | undefined {
    if (!this.entries.has(key)) {
      return undefined;
    }
    const value = this.entries.get(key) as V;
    this.set(key, value);
    return value;
  }

  /** Whether something is remembered for the key. */
  has(key: K): boolean {
    return this.entries.has(key);
  }

  /** Remembers a value. */
  set(key: K, value: V): void {
    this.entries.delete(key);
    this.entries.set(key, value);
    if (this.entries.size > this.most) {
      for (const oldest of this.entries.keys()) {
        this.entries.delete(oldest);
        break;
      }
    }
  }

  /** What is remembered for the key, or else what is made for it now. */
  compute(key: K, make: () => V): V {
    if (this.entries.has(key)) {
      return this.get(key) as V;
    }
    const value = make();
    this.set(key, value);
    return value;
  }

  /** How many are remembered. */
  get size(): number {
    return this.entries.size;
  }
}
