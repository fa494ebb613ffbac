import { useSyncExternalStore } from 'react';
import type { Session, Status } from '../api/types';
import { groupOf } from '../ui/status';
import { firstUse, seenNow, watchSeen } from './seen';

const news: Status[] = ['waiting', 'escalated', 'failed', 'out_of_budget'];

/**
 * Whether something of this session was not shown here yet. Of those that never were opened here, what needs somebody is
 * news, and what finished since this browser first had the app; everything that was there before is not.
 */
export function useUnread(session: Session): boolean {
	const seen = useSyncExternalStore(watchSeen, seenNow);
	const last = seen[session.id];
	if (last !== undefined) return session.seq > last && session.status !== 'working';
	if (news.includes(session.status)) return true;
	return groupOf(session) === 'finished' && Date.parse(session.finished_at ?? session.updated_at) > firstUse;
}
