// What this browser has shown of each session, so that lists can mark what is new and a page can say what came since.
const KEY = 'slipway.seen';
const FIRST = 'slipway.first';
const MOST = 500;

/** When this browser first had the app. */
export const firstUse: number = (() => {
	try {
		const kept = Number(localStorage.getItem(FIRST));
		if (kept > 0) return kept;
		localStorage.setItem(FIRST, String(Date.now()));
	} catch {
		// A browser that keeps nothing has the app for the first time, always.
	}
	return Date.now();
})();

let seen: Record<string, number> = read();
const listeners = new Set<() => void>();

function read(): Record<string, number> {
	try {
		return JSON.parse(localStorage.getItem(KEY) ?? '{}') as Record<string, number>;
	} catch {
		return {};
	}
}

window.addEventListener('storage', (event) => {
	if (event.key !== KEY) return;
	seen = read();
	for (const listener of listeners) listener();
});

export function seenOf(session: string): number | null {
	return seen[session] ?? null;
}

export function markSeen(session: string, seq: number) {
	if ((seen[session] ?? 0) >= seq) return;
	const rest = Object.entries(seen).filter(([id]) => id !== session);
	seen = Object.fromEntries([...rest.slice(-MOST), [session, seq]]);
	try {
		localStorage.setItem(KEY, JSON.stringify(seen));
	} catch {
		// A browser that keeps nothing marks nothing.
	}
	for (const listener of listeners) listener();
}

export function watchSeen(listener: () => void) {
	listeners.add(listener);
	return () => {
		listeners.delete(listener);
	};
}

export const seenNow = () => seen;
