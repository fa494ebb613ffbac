// Tells of what needs somebody, finished or failed while nobody looks. Nothing else, and never while a tab of
// the app is in front.
import { newKey } from '../api/client';
import { queries } from '../api/queries';
import type { Session, SessionList, Status } from '../api/types';
import { visible } from '../text/hidden';

const KEY = 'slipway.notify';

export const canNotify = () => 'Notification' in window;
export const notifies = () =>
	canNotify() && Notification.permission === 'granted' && localStorage.getItem(KEY) !== 'off';

export async function switchNotifications(on: boolean): Promise<boolean> {
	if (!canNotify()) return false;
	localStorage.setItem(KEY, on ? 'on' : 'off');
	if (on && Notification.permission === 'default') await Notification.requestPermission();
	return notifies();
}

const words: Partial<Record<Status, string>> = {
	waiting: 'needs you',
	done: 'is done',
	escalated: 'needs you: it could not finish by itself',
	failed: 'failed',
	out_of_budget: 'is out of budget',
};

/** Looks at each change of the lists, and tells of a session that came to such a state. */
export function watchForNotifications() {
	const known = new Map<string, Status>();
	const since = Date.now();
	const moments = ['focus', 'blur', 'pageshow', 'pagehide'];
	for (const moment of moments) window.addEventListener(moment, sayWhetherInFront);
	document.addEventListener('visibilitychange', sayWhetherInFront);
	sayWhetherInFront();
	const unsubscribe = queries.getQueryCache().subscribe((event) => {
		if (event.type !== 'updated' || event.query.queryKey[0] !== 'sessions') return;
		const list = event.query.state.data as SessionList | undefined;
		for (const session of list?.sessions ?? []) {
			const before = known.get(session.id);
			known.set(session.id, session.status);
			// One that was not listed before is told of where that is news: it may have been quicker than the list.
			const news = before === undefined ? Date.parse(session.updated_at) > since : before !== session.status;
			if (news) void tell(session);
		}
	});
	return () => {
		unsubscribe();
		for (const moment of moments) window.removeEventListener(moment, sayWhetherInFront);
		document.removeEventListener('visibilitychange', sayWhetherInFront);
	};
}

const inFront = () => document.visibilityState === 'visible' && document.hasFocus();

const FRONT = 'slipway.front.';
const mine = FRONT + newKey();
/** Ends the lock that says that this tab is in front; none while it is not. */
let leave: (() => void) | null = null;

/** A lock for as long as this tab is in front: the browser ends it with the tab, so what it says is always true. */
function sayWhetherInFront() {
	if (!navigator.locks || inFront() === (leave !== null)) return;
	if (leave) {
		leave();
		leave = null;
		return;
	}
	const until = new Promise<void>((done) => {
		leave = done;
	});
	navigator.locks.request(mine, () => until).catch(() => undefined);
}

/** Whether somebody has another tab of the app in front of them: what this one would tell is seen there. */
async function anotherIsInFront(): Promise<boolean> {
	const { held = [] } = (await navigator.locks?.query()) ?? {};
	return held.some(({ name }) => name?.startsWith(FRONT) && name !== mine);
}

async function tell(session: Session) {
	const word = words[session.status];
	if (!word || !notifies() || inFront() || (await anotherIsInFront().catch(() => false))) return;
	const path = `/s/${session.id}`;
	const options = {
		body: visible(session.reason ?? `${session.environment} · ${session.title}`),
		tag: session.id,
		data: { path },
	};
	navigator.serviceWorker?.ready
		.then((worker) => worker.showNotification(`${visible(session.title)} ${word}`, options))
		.catch(() => undefined);
}
