// Keeps the list of sessions fresh: it is asked for again when the server says that something in it changed, and now and
// then where nobody says so.
import { queries } from '../api/queries';
import { live } from './link';

/** However often it changes, it is asked for once in this time. */
const PAUSE = 1_000;

export function keepListFresh() {
	let timer: ReturnType<typeof setTimeout> | null = null;
	let last = 0;
	const ask = () => {
		timer = null;
		last = Date.now();
		queries.invalidateQueries({ queryKey: ['sessions'] });
	};
	live.watchList(true);
	const unsubscribe = live.onSaid((message) => {
		if (message.type !== 'list.changed' || timer) return;
		timer = setTimeout(ask, Math.max(0, last + PAUSE - Date.now()));
	});
	return () => {
		live.watchList(false);
		unsubscribe();
		if (timer) clearTimeout(timer);
	};
}

/** A server that came back is asked again for what is on the page: it was not to be had, or is older than it looks. */
export function askAgainWhenBack() {
	let lost = live.link.state === 'lost';
	return live.watch(() => {
		const { state } = live.link;
		if (state === 'open' && lost) queries.invalidateQueries();
		lost = state === 'lost' || (lost && state !== 'open');
	});
}
