// Whether the server has another build of the app than this page: after an upgrade, what this page did not fetch yet is gone.
import { useSyncExternalStore } from 'react';
import { live } from '../live/link';

const ENTRY = /<script[^>]*\ssrc="(\/assets\/[^"]+)"/;

/** The script that this page began with; none in development, where nothing has a name of its own. */
const script = document.querySelector<HTMLScriptElement>('script[type=module][src^="/assets/"]');
const own = script ? new URL(script.src).pathname : null;

let newer = false;
const listeners = new Set<() => void>();

/** Asks the server; a server that cannot be reached has nothing new. */
export async function lookForNewVersion(): Promise<boolean> {
	if (!own || newer) return newer;
	try {
		const answer = await fetch('/', { cache: 'no-store' });
		const entry = answer.ok ? ENTRY.exec(await answer.text())?.[1] : undefined;
		if (entry && entry !== own) {
			newer = true;
			for (const listener of listeners) listener();
			// What is kept for when there is no server becomes that of the newer one, too.
			(await navigator.serviceWorker?.getRegistration())?.update().catch(() => undefined);
		}
	} catch {
		// It is asked again when the connection is back.
	}
	return newer;
}

/** A server that comes back may be a newer one. */
export function watchForNewVersion() {
	let before = live.link.state;
	return live.watch(() => {
		const now = live.link.state;
		if (now === 'open' && before !== 'open') lookForNewVersion();
		before = now;
	});
}

export function useNewVersion(): boolean {
	return useSyncExternalStore(
		(listener) => {
			listeners.add(listener);
			return () => {
				listeners.delete(listener);
			};
		},
		() => newer,
	);
}
