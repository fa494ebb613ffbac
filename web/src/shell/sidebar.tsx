// The sidebar: what needs somebody, what works, what finished, and the way to everything else.
import { useMe, useSessions } from '../api/queries';
import type { Session } from '../api/types';
import { useLink } from '../live/store';
import { useUnread } from '../live/unread';
import { visible } from '../text/hidden';
import { ago, shortDuration } from '../ui/format';
import { Icon, type IconName } from '../ui/icons';
import { mod } from '../ui/keys';
import { useNow, useNowText } from '../ui/now';
import { IconButton, Kbd } from '../ui/parts';
import { Link, match, paths, usePath } from '../ui/router';
import { groupOf, groups, StatusMark } from '../ui/status';

/** Finished sessions that are listed here; the page has all. */
const FEW = 12;

export function Sidebar({ openPalette, close }: { openPalette: () => void; close?: () => void }) {
	const path = usePath();
	const sessions = useSessions().data?.sessions ?? [];
	const open = match('/s/:id/:tab?', path)?.id;
	return (
		<nav aria-label="Sessions and pages" className="flex h-full flex-col">
			<div className="flex items-center gap-1 p-2 pb-1">
				<Link to="/" className="target flex h-8 flex-1 items-center gap-2 rounded-md px-2 font-semibold">
					<Icon name="ship" className="text-accent" />
					Slipway
				</Link>
				{close ? <IconButton icon="cross" label="Close the menu" onClick={close} /> : <Connection />}
			</div>
			<div className="flex gap-1 px-2 pb-2">
				<Link
					to={paths.newSession()}
					className="target flex h-8 flex-1 items-center gap-2 rounded-md border border-line-strong bg-surface px-2.5 text-sm font-medium hover:bg-sunken"
				>
					<Icon name="plus" size={14} /> New
					<span className="ml-auto">
						<Kbd>c</Kbd>
					</span>
				</Link>
				<button
					type="button"
					onClick={openPalette}
					className="target flex h-8 items-center gap-2 rounded-md border border-line-strong bg-surface px-2.5 text-sm hover:bg-sunken"
				>
					<Icon name="search" size={14} className="text-muted" />
					<span className="sr-only">Find anything</span>
					<Kbd>{mod}K</Kbd>
				</button>
			</div>
			<div className="min-h-0 flex-1 overflow-y-auto px-2 pb-2">
				{groups.map(({ group, title }) => {
					const mine = sessions.filter((session) => groupOf(session) === group && !session.archived);
					if (mine.length === 0) return null;
					const shown = group === 'finished' ? mine.slice(0, FEW) : mine;
					return (
						<section key={group} className="mt-2" aria-label={title}>
							<h2 className="heading flex px-2 py-1">
								<span className="flex-1">{title}</span>
								<span className="tabular font-normal">{mine.length}</span>
							</h2>
							<ul>
								{shown.map((session) => (
									<li key={session.id}>
										<Row session={session} open={session.id === open} />
									</li>
								))}
							</ul>
							{shown.length < mine.length && (
								<Link to="/" className="target flex items-center px-2 py-1 text-xs text-muted hover:text-text">
									{mine.length - shown.length} more
								</Link>
							)}
						</section>
					);
				})}
			</div>
			<div className="border-t border-line p-2">
				<Page to={paths.sessions()} icon="inbox" on={path === '/'}>
					Sessions
				</Page>
				<Page to={paths.environments()} icon="box" on={path.startsWith('/environments')}>
					Environments
				</Page>
				<Page to={paths.statistics()} icon="chart" on={path.startsWith('/statistics')}>
					Statistics
				</Page>
				<Page to={paths.settings()} icon="gear" on={path.startsWith('/settings')}>
					Settings
				</Page>
				<Me />
			</div>
		</nav>
	);
}

function Row({ session, open }: { session: Session; open: boolean }) {
	const unread = useUnread(session) && !open;
	return (
		<Link
			to={paths.session(session.id)}
			aria-current={open ? 'page' : undefined}
			className={`target flex h-8 items-center gap-2 rounded-md px-2 text-sm ${open ? 'bg-accent-soft' : 'hover:bg-sunken'}`}
		>
			<StatusMark status={session.status} word={false} />
			<span className={`min-w-0 flex-1 truncate ${unread ? 'font-semibold' : ''}`}>{visible(session.title)}</span>
			{unread && (
				<span className="size-1.5 shrink-0 rounded-full bg-accent">
					<span className="sr-only">new</span>
				</span>
			)}
			<Since session={session} />
		</Link>
	);
}

function Since({ session }: { session: Session }) {
	const started = session.turn_started_at;
	const text = useNowText((now) =>
		session.status === 'working' && started ? shortDuration(now - Date.parse(started)) : ago(session.updated_at, now),
	);
	return <span className="tabular shrink-0 text-xs text-muted">{text}</span>;
}

function Page({ to, icon, on, children }: { to: string; icon: IconName; on: boolean; children: string }) {
	return (
		<Link
			to={to}
			aria-current={on ? 'page' : undefined}
			className={`target flex h-8 items-center gap-2 rounded-md px-2 text-sm ${on ? 'bg-accent-soft' : 'hover:bg-sunken'}`}
		>
			<Icon name={icon} className="text-muted" />
			{children}
		</Link>
	);
}

function Me() {
	const me = useMe();
	if (!me.data) return null;
	return (
		<p className="mt-1 flex items-center gap-2 truncate px-2 pt-1 text-xs text-muted">
			<span className="truncate">{me.data.name}</span>
			<span className="ml-auto">{me.data.version}</span>
		</p>
	);
}

/** How the connection is, in words; null where it is well. */
function useTrouble(): string | null {
	const link = useLink();
	const now = useNow();
	if (link.state === 'open') return null;
	return link.state === 'lost' && link.retryAt > now
		? `offline, next try in ${Math.ceil((link.retryAt - now) / 1000)} s`
		: 'connecting';
}

/** On a phone, where the sidebar is out of sight: that there is no connection. A session says more on its own page. */
export function Away() {
	const lost = useLink().state === 'lost';
	const text = useTrouble();
	const session = usePath().startsWith('/s/');
	if (!lost || session) return null;
	return (
		<p role="status" className="border-b border-line bg-needs-soft px-4 py-1 text-xs text-needs">
			The server cannot be reached: {text}. What is shown is as it was.
		</p>
	);
}

function Connection() {
	const text = useTrouble();
	if (text === null) {
		return <span className="mr-2 size-1.5 rounded-full bg-good" role="img" aria-label="Connected" title="Connected" />;
	}
	return (
		<span role="status" className="mr-2 text-xs text-needs">
			{text}
		</span>
	);
}
