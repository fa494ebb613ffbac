// Work that may be much, done in turns: of each stretch of time a part goes into it, and the rest waits for the next, so that
// the page answers meanwhile.

const STRETCH_MS = 100;
const PART_MS = 40;

let begun = Number.NEGATIVE_INFINITY;
let used = 0;
let asked = false;
const waiting = new Set<() => void>();

/** What the work comes to; undefined where its turn is not yet, and `later` is to be asked. */
export function inTurn<T>(work: () => T): T | undefined {
	const now = performance.now();
	if (now - begun > STRETCH_MS) {
		begun = now;
		used = 0;
	}
	if (used >= PART_MS) return undefined;
	const made = work();
	used += performance.now() - now;
	return made;
}

/** Tells when there is time again; gives a way to want it no longer. */
export function later(what: () => void): () => void {
	waiting.add(what);
	if (!asked) setTimeout(tellAll, STRETCH_MS - PART_MS);
	asked = true;
	return () => {
		waiting.delete(what);
	};
}

function tellAll() {
	asked = false;
	begun = Number.NEGATIVE_INFINITY;
	const all = [...waiting];
	waiting.clear();
	for (const one of all) one();
}
