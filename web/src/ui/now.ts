// The time, for what counts seconds: one timer for all, none while nothing counts.
import { useSyncExternalStore } from 'react';

const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | null = null;
let now = Date.now();

function subscribe(listener: () => void) {
	listeners.add(listener);
	now = Date.now();
	timer ??= setInterval(() => {
		now = Date.now();
		for (const one of listeners) one();
	}, 1000);
	return () => {
		listeners.delete(listener);
		if (listeners.size === 0 && timer) {
			clearInterval(timer);
			timer = null;
		}
	};
}

/** What the time makes of something; drawn again only when that is another text. */
export function useNowText(say: (now: number) => string): string {
	return useSyncExternalStore(subscribe, () => say(now));
}

export function useNow(): number {
	return useSyncExternalStore(subscribe, () => now);
}
