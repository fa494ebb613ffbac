// Tells of what needs somebody, finished or failed while nobody looks. Nothing else, and never while the tab is in front.
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
	return queries.getQueryCache().subscribe((event) => {
		if (event.type !== 'updated' || event.query.queryKey[0] !== 'sessions') return;
		const list = event.query.state.data as SessionList | undefined;
		for (const session of list?.sessions ?? []) {
			const before = known.get(session.id);
			known.set(session.id, session.status);
			// One that was not listed before is told of where that is news: it may have been quicker than the list.
			const news = before === undefined ? Date.parse(session.updated_at) > since : before !== session.status;
			if (news) tell(session);
		}
	});
}

function tell(session: Session) {
	const word = words[session.status];
	if (!word || !notifies() || (document.visibilityState === 'visible' && document.hasFocus())) return;
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
