// The one status of a session: an icon, a word and a colour, everywhere the same.
import type { Group, Session, Status } from '../api/types';
import { Icon, type IconName } from './icons';

interface Look {
	word: string;
	icon: IconName;
	colour: string;
	group: Group;
}

const looks: Record<Status, Look> = {
	queued: { word: 'queued', icon: 'clock', colour: 'text-off', group: 'working' },
	working: { word: 'working', icon: 'half', colour: 'text-working', group: 'working' },
	waiting: { word: 'needs you', icon: 'hand', colour: 'text-needs', group: 'needs_you' },
	done: { word: 'done', icon: 'check', colour: 'text-good', group: 'finished' },
	escalated: { word: 'escalated', icon: 'warning', colour: 'text-needs', group: 'needs_you' },
	failed: { word: 'failed', icon: 'cross', colour: 'text-bad', group: 'needs_you' },
	cancelled: { word: 'stopped', icon: 'stop', colour: 'text-off', group: 'finished' },
	out_of_budget: { word: 'out of budget', icon: 'pause', colour: 'text-needs', group: 'needs_you' },
};

export const lookOf = (status: Status): Look => looks[status] ?? looks.queued;

export function groupOf(session: Session): Group {
	return session.group ?? lookOf(session.status).group;
}

export function StatusMark({ status, word = true, icon = true }: { status: Status; word?: boolean; icon?: boolean }) {
	const look = lookOf(status);
	return (
		<span className={`inline-flex items-center gap-1 whitespace-nowrap ${look.colour}`}>
			{!icon ? null : status === 'working' ? (
				<span aria-hidden="true" className="pulse mx-[3px] size-2 rounded-full bg-working" />
			) : (
				<Icon name={look.icon} size={14} />
			)}
			<span className={word ? '' : 'sr-only'}>{look.word}</span>
		</span>
	);
}

export const groups: { group: Group; title: string }[] = [
	{ group: 'needs_you', title: 'Needs you' },
	{ group: 'working', title: 'Working' },
	{ group: 'finished', title: 'Finished' },
];
