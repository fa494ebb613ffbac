// The inbox: what needs somebody, what works, what finished. Filters are in the address.
import { useRef, useState } from 'react';
import { useEnvironments, useSessions } from '../api/queries';
import type { Session } from '../api/types';
import { useUnread } from '../live/unread';
import { archive } from '../shell/archive';
import { visible } from '../text/hidden';
import { ago, duration, fullTime, money, plural, shortDuration } from '../ui/format';
import { Icon } from '../ui/icons';
import { useKeys } from '../ui/keys';
import { useNowText } from '../ui/now';
import { Button, Empty, Failure, IconButton, Waiting } from '../ui/parts';
import { Link, paths, useSearch } from '../ui/router';
import { groupOf, groups, StatusMark } from '../ui/status';

/** Finished sessions that are listed at once, and more each time that they are asked for. */
const STEP = 100;

export default function Sessions() {
	const [search, change] = useSearch();
	const q = search.get('q') ?? '';
	const environment = search.get('environment') ?? '';
	const archived = search.get('archived') ?? '';
	const author = search.get('author') ?? '';
	const filtered = Boolean(q || environment || archived || author);
	const list = useSessions({ q, environment, author, archived });
	const known = useEnvironments().data?.map((one) => one.name) ?? [];
	// What the address says is said here too, also where there is no such environment any more.
	const environments = [...new Set(environment ? [...known, environment] : known)];
	/** The row that one is at, by its session: the list moves while one looks at it. */
	const [at, setAt] = useState<string | null>(null);
	const place = useRef(-1);
	const [most, setMost] = useState(STEP);

	// A server that does not filter leaves it to us.
	const words = q.toLowerCase().split(/\s+/).filter(Boolean);
	const fits = (session: Session) =>
		(!environment || session.environment === environment) &&
		(archived === 'true' || archived === 'all' || !session.archived) &&
		(words.length === 0 ||
			list.data?.counts !== undefined ||
			words.every((word) => session.title.toLowerCase().includes(word)));
	const sessions = (list.data?.sessions ?? []).filter(fits);
	const every = useSessions().data?.sessions ?? [];
	const people = every.flatMap((session) => session.authors?.map((one) => one.name) ?? []);
	const names = [...new Set(author ? [...people, author] : people)].sort();
	const cut = list.data?.next_cursor != null;
	const byGroup = groups.map(({ group, title }) => {
		const all = nested(sessions.filter((session) => groupOf(session) === group));
		// The server counts those that its page has no room for, too.
		const count = cut ? (list.data?.counts?.[group] ?? all.length) : all.length;
		return { group, title, count, sessions: group === 'finished' ? all.slice(0, most) : all, left: all.length - most };
	});
	const inOrder = byGroup.flatMap((one) => one.sessions.map((row) => row.session));
	const titles = new Map([...every, ...sessions].map((session) => [session.id, session.title]));
	/** Children that stand elsewhere, since they are otherwise than their parent. */
	const apart = (parent: Session) =>
		sessions.filter((child) => child.parent === parent.id && groupOf(child) !== groupOf(parent));
	// The row with the focus is the one; without any it is the one that had it last.
	const here = () => {
		const row = document.activeElement?.closest<HTMLElement>('[data-session]')?.dataset.session ?? at;
		return inOrder.findIndex((session) => session.id === row);
	};
	const chosen = inOrder.find((session) => session.id === at);
	const move = (by: number) => {
		const from = here();
		// Where the row went away, those after it moved up into its place.
		const wanted = from >= 0 ? from + by : place.current + (by > 0 ? Math.max(0, by - 1) : by);
		const next = Math.max(0, Math.min(inOrder.length - 1, place.current < 0 && from < 0 ? 0 : wanted));
		document.getElementById(`row-${inOrder[next]?.id}`)?.focus();
	};
	const focused = (id: string) => {
		setAt(id);
		place.current = inOrder.findIndex((session) => session.id === id);
	};
	useKeys({
		j: () => move(1),
		k: () => move(-1),
		e: () => {
			const session = inOrder[here()];
			if (session) archive(session);
		},
	});
	return (
		<div className="flex min-h-0 flex-1 flex-col">
			<header className="flex flex-wrap items-center gap-2 border-b border-line px-4 py-2">
				<h1 className="mr-2 font-semibold max-md:sr-only">Sessions</h1>
				<label className="relative min-w-40 flex-1 max-md:basis-full">
					<span className="sr-only">Search sessions</span>
					<Icon name="search" size={14} className="absolute top-1/2 left-2.5 -translate-y-1/2 text-muted" />
					<input
						id="search"
						type="search"
						className="field pl-8"
						placeholder="Search titles and prompts"
						value={q}
						onChange={(event) => change({ q: event.target.value })}
						onKeyDown={(event) => event.key === 'Escape' && event.currentTarget.blur()}
					/>
				</label>
				<select
					aria-label="Environment"
					className="field w-auto max-w-56 max-md:w-0 max-md:flex-1"
					value={environment}
					onChange={(event) => change({ environment: event.target.value })}
				>
					<option value="">All environments</option>
					{environments.map((name) => (
						<option key={name}>{name}</option>
					))}
				</select>
				{names.length > 1 || author ? (
					<select
						aria-label="Person"
						className="field w-auto max-w-56 max-md:w-0 max-md:flex-1"
						value={author}
						onChange={(event) => change({ author: event.target.value })}
					>
						<option value="">Everybody</option>
						{names.map((name) => (
							<option key={name}>{name}</option>
						))}
					</select>
				) : null}
				<select
					aria-label="Archived"
					className="field w-auto max-w-56 max-md:w-0 max-md:flex-1"
					value={archived}
					onChange={(event) => change({ archived: event.target.value })}
				>
					<option value="">Not archived</option>
					<option value="true">Archived</option>
					<option value="all">All</option>
				</select>
			</header>
			<div className="min-h-0 flex-1 overflow-y-auto">
				{list.error && <Failure error={list.error} again={() => list.refetch()} className="m-4" />}
				{list.isPending && <Waiting>Fetching the sessions</Waiting>}
				{list.data && sessions.length === 0 && filtered && (
					<Empty title="No session fits">
						<p>No session is as the search and the filters above say.</p>
						<Button
							className="mt-3"
							onClick={() => change({ q: null, environment: null, author: null, archived: null })}
						>
							Show all
						</Button>
					</Empty>
				)}
				{list.data && sessions.length === 0 && !filtered && (
					<Empty title="No sessions yet">
						<p>Describe a task; an agent works on it in a sandbox, and your checks tell it what it broke.</p>
						<Link to={paths.newSession()} className="mt-3 inline-block text-accent underline">
							Start a session
						</Link>
					</Empty>
				)}
				{byGroup.map(({ group, title, count, sessions: rows, left }) =>
					rows.length === 0 ? null : (
						<section key={group} aria-label={title} className="pb-3">
							<h2 className="heading sticky top-0 z-10 border-b border-line bg-background px-4 py-1.5">
								{title} <span className="tabular font-normal">{count.toLocaleString('en-GB')}</span>
							</h2>
							<ul>
								{rows.map(({ session, depth }) => (
									<li key={session.id} data-session={session.id} onFocus={() => focused(session.id)}>
										<Row
											session={session}
											depth={depth}
											chosen={chosen?.id === session.id}
											parent={depth === 0 && session.parent ? (titles.get(session.parent) ?? 'another session') : null}
											apart={apart(session)}
										/>
									</li>
								))}
							</ul>
							{group === 'finished' && left > 0 && (
								<p className="p-3 text-center">
									<Button onClick={() => setMost(most + STEP)}>Show {Math.min(STEP, left)} more</Button>
								</p>
							)}
						</section>
					),
				)}
				{cut && (
					<p className="px-4 py-3 text-center text-sm text-muted">
						These are the {plural(sessions.length, 'session')} that changed last. The search finds those before them.
					</p>
				)}
			</div>
		</div>
	);
}

/** Children after their parent, one step to the right. */
function nested(sessions: Session[]): { session: Session; depth: number }[] {
	const here = new Set(sessions.map((session) => session.id));
	const rows: { session: Session; depth: number }[] = [];
	const put = (session: Session, depth: number) => {
		rows.push({ session, depth });
		if (depth > 8) return;
		for (const child of sessions) if (child.parent === session.id) put(child, depth + 1);
	};
	for (const session of sessions) if (!session.parent || !here.has(session.parent)) put(session, 0);
	return rows;
}

interface RowProps {
	session: Session;
	depth: number;
	chosen: boolean;
	/** The session that it belongs to, where that does not stand above it. */
	parent: string | null;
	/** Its children that do not stand below it. */
	apart: Session[];
}

function Row({ session, depth, chosen, parent, apart }: RowProps) {
	const unread = useUnread(session);
	return (
		<div
			className={`group flex items-center border-b border-line pr-2 hover:bg-sunken ${chosen ? 'bg-accent-soft' : ''}`}
			style={depth ? { paddingLeft: depth * 20 } : undefined}
		>
			<Link
				id={`row-${session.id}`}
				to={paths.session(session.id)}
				className="grid min-h-11 min-w-0 flex-1 grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 px-4 py-1.5 md:grid-cols-[minmax(0,1fr)_auto_auto]"
			>
				<span className="flex min-w-0 items-center gap-2">
					<span aria-hidden="true" className="inline-flex">
						<StatusMark status={session.status} word={false} />
					</span>
					<span className={`truncate ${unread ? 'font-semibold' : ''}`}>{visible(session.title)}</span>
					{unread && (
						<span className="size-1.5 shrink-0 rounded-full bg-accent">
							<span className="sr-only">new</span>
						</span>
					)}
				</span>
				<Facts session={session} />
				<Since session={session} />
				<span className="col-span-full flex min-w-0 items-center gap-2 pl-6 text-xs text-muted">
					<StatusMark status={session.status} icon={false} />
					<span className="truncate">
						{parent !== null && `part of “${visible(parent)}” · `}
						{apart.length > 0 && `${apartWords(apart)} · `}
						{visible(session.environment)}
						{session.branch && ` · ${visible(session.branch)}`}
						{authors(session)}
						{session.origin && session.origin !== 'web' && ` · from ${session.origin}`}
						{session.reason && ` · ${visible(session.reason)}`}
					</span>
				</span>
			</Link>
			<IconButton
				icon="archive"
				label={session.archived ? `Bring ${visible(session.title)} back` : `Archive ${visible(session.title)}`}
				className="opacity-0 group-focus-within:opacity-100 group-hover:opacity-100 max-md:opacity-100"
				onClick={() => archive(session)}
			/>
		</div>
	);
}

/** How children are that stand in other groups: `1 child works, 2 children need you`. */
function apartWords(children: Session[]): string {
	const words = {
		needs_you: ['needs you', 'need you'],
		working: ['works', 'work'],
		finished: ['finished', 'finished'],
	};
	return groups
		.map(({ group }) => ({ group, count: children.filter((child) => groupOf(child) === group).length }))
		.filter(({ count }) => count > 0)
		.map(({ group, count }) => `${plural(count, 'child', 'children')} ${words[group][count === 1 ? 0 : 1]}`)
		.join(', ');
}

const authors = (session: Session) =>
	session.authors?.length ? ` · ${session.authors.map((author) => author.name).join(', ')}` : '';

/** What came of it so far, in figures; on a phone a line of their own. */
function Facts({ session }: { session: Session }) {
	const { changes, checks = [], delivery } = session;
	const failed = checks.filter((check) => !check.passed).length;
	return (
		<span className="tabular flex items-center gap-4 text-xs whitespace-nowrap text-muted empty:hidden max-md:order-last max-md:col-span-full max-md:gap-3 max-md:pl-6">
			{changes && changes.files > 0 && (
				<span>
					<span className="text-good">+{changes.insertions}</span>{' '}
					<span className="text-bad">−{changes.deletions}</span>
				</span>
			)}
			{checks.length > 0 && (
				<span className={failed ? 'text-bad' : 'text-good'}>
					{failed
						? `${failed} of ${checks.length} checks fail`
						: checks.length === 1
							? 'check passes'
							: `${checks.length} checks pass`}
				</span>
			)}
			{delivery && <span>{deliveryWord(session)}</span>}
			{session.spend.calls > 0 && <span>{money(session.spend.cost_usd)}</span>}
		</span>
	);
}

/** How long the turn under way, or the last one, took; of what is over also since when. */
function Since({ session }: { session: Session }) {
	const { turn_started_at: started, turn_ms: took } = session;
	const works = started && session.status === 'working';
	const text = useNowText((now) => (works ? shortDuration(now - Date.parse(started)) : ago(session.updated_at, now)));
	return (
		<span className="tabular min-w-10 text-right text-xs whitespace-nowrap text-muted">
			{!works && took != null && (
				<span title="How long the last turn took">
					<span className="sr-only">took </span>
					{duration(took)} ·{' '}
				</span>
			)}
			<time dateTime={works ? started : session.updated_at} title={fullTime(works ? started : session.updated_at)}>
				{text}
			</time>
		</span>
	);
}

export function deliveryWord(session: Session): string {
	if (session.merged_at) return 'merged';
	if (session.closed_at) return 'closed';
	const { delivery } = session;
	if (!delivery) return '';
	const number = delivery.number ? ` #${delivery.number}` : '';
	const words: Record<string, string> = {
		intended: 'being pushed',
		pushed: 'pushed',
		opening: 'opening',
		opened: `opened${number}`,
		failed: 'not delivered',
		unknown: 'delivery unclear',
	};
	return words[delivery.state] ?? delivery.state;
}
