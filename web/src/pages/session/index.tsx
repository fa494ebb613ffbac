// A session: its header, its tabs, and beside them the plan, the queue, the people and the budget.
import { useEffect, useState } from 'react';
import { send } from '../../api/client';
import { useListed, useListedProblem } from '../../api/queries';
import { lastReports, statusOf, turnElapsed } from '../../live/derive';
import { markSeen, seenOf } from '../../live/seen';
import { currentTurn } from '../../live/state';
import { type SessionStore, useLink, useLive, useStore } from '../../live/store';
import { archive } from '../../shell/archive';
import { part } from '../../shell/part';
import { visible } from '../../text/hidden';
import { duration, money, plural } from '../../ui/format';
import { focusWhenThere, useKeys } from '../../ui/keys';
import { usePhone, useWide } from '../../ui/media';
import { Menu } from '../../ui/menu';
import { useNow } from '../../ui/now';
import { Dialog, Empty, Failure, IconButton, Tabs, Waiting } from '../../ui/parts';
import { go, Link, paths, useSearch } from '../../ui/router';
import { Safe } from '../../ui/safe';
import { StatusMark } from '../../ui/status';
import { complain, say } from '../../ui/toast';
import { Checks } from './checks';
import { Composer } from './composer';
import { Conversation } from './conversation';
import { Inspector } from './inspector';
import { Stop } from './stop';

const Changes = part(() => import('./changes'));
const Terminal = part(() => import('./terminal'));
const Files = part(() => import('./files'));
const Events = part(() => import('./events'));

const tabs = ['session', 'changes', 'checks', 'terminal', 'files', 'events'] as const;
type Tab = (typeof tabs)[number];

/** As long is said what a connection brought that came back. */
const CAUGHT_MS = 8_000;

export default function SessionPage({ id, tab }: { id: string; tab?: string }) {
	return <Open key={id} id={id} tab={tabs.find((one) => one === tab) ?? 'session'} />;
}

function Open({ id, tab }: { id: string; tab: Tab }) {
	const store = useStore(id);
	const listed = useListed(id);
	const [since, setSince] = useState(() => seenOf(id));
	const wide = useWide();
	const phone = usePhone();
	const [inspector, setInspects] = useState<boolean | null>(null);
	const [search, change] = useSearch();
	const budget = search.get('budget') === '1';
	const setInspector = (next: boolean) => {
		setInspects(next);
		if (!next && budget) change({ budget: null });
	};
	// Changes, files and the terminal want the width for themselves.
	const shown = budget || (inspector ?? (wide && (tab === 'session' || tab === 'checks')));
	const title = useLive(store, ({ state }) => visible(state.title));
	const problem = useLive(store, (one) => one.problem);
	const seq = useLive(store, ({ state }) => (state.live ? state.seq : 0));
	const known = useLive(store, (one) => one.whole);
	useEffect(() => {
		document.title = `${title || 'Session'} · Slipway`;
	}, [title]);
	useEffect(() => {
		const mark = () => {
			if (seq && document.visibilityState === 'visible') markSeen(id, seq);
		};
		// Somebody comes back: what happened meanwhile is what they have not seen.
		const look = () => {
			const before = seenOf(id);
			const { state } = store;
			if (document.visibilityState === 'visible' && before !== null && state.live && before < state.seq)
				setSince(before);
			mark();
		};
		mark();
		document.addEventListener('visibilitychange', look);
		return () => document.removeEventListener('visibilitychange', look);
	}, [id, seq, store]);
	// The same for what came while there was no connection.
	const caught = useLive(store, (one) => one.caughtUp);
	useEffect(() => {
		if (caught && Date.now() - caught.at < CAUGHT_MS) setSince(caught.from);
	}, [caught]);
	useKeys({
		...Object.fromEntries(
			tabs.map((one, at) => [String(at + 1), () => go(paths.session(id, one === 'session' ? '' : one))]),
		),
		'.': () => setInspector(!shown),
		i: () => {
			if (tab !== 'session') go(paths.session(id));
			focusWhenThere('composer');
		},
		a: () => document.querySelector<HTMLElement>('[data-approve]')?.focus(),
		e: () => archive({ id, archived: listed?.archived ?? false }),
	});
	// What is no session at all cannot be followed either, so nobody would ever tell of it.
	const missing = useListedProblem(id);
	const trouble = problem ?? missing;
	if (trouble && !known) {
		return trouble.status === 404 || trouble.status === 400 ? (
			<Empty title="There is no such session">
				<Link to="/" className="text-accent underline">
					All sessions
				</Link>
			</Empty>
		) : (
			<Failure error={new Error(trouble.title)} className="m-4" />
		);
	}
	return (
		<div className="flex min-h-0 flex-1">
			<div className="flex min-h-0 min-w-0 flex-1 flex-col">
				<Header store={store} tab={tab} inspector={shown} toggle={() => setInspector(!shown)} />
				<Banner store={store} />
				{!known ? (
					<Reading store={store} />
				) : tab === 'session' ? (
					<>
						<Safe>
							<Conversation store={store} since={since} />
						</Safe>
						<Safe>
							<Composer store={store} />
						</Safe>
					</>
				) : (
					<Safe key={tab}>
						{tab === 'changes' && <Changes store={store} />}
						{tab === 'checks' && <Checks store={store} />}
						{tab === 'terminal' && <Terminal store={store} />}
						{tab === 'files' && <Files store={store} />}
						{tab === 'events' && <Events store={store} />}
					</Safe>
				)}
			</div>
			{shown &&
				known &&
				(phone || !wide ? (
					<Dialog open side="right" onClose={() => setInspector(false)} label="Details">
						<Safe>
							<Inspector store={store} close={() => setInspector(false)} />
						</Safe>
					</Dialog>
				) : (
					<aside aria-label="Details" className="w-[272px] shrink-0 overflow-y-auto border-l border-line">
						<Safe>
							<Inspector store={store} />
						</Safe>
					</aside>
				))}
		</div>
	);
}

/** How far the reading of the log has come. */
function Reading({ store }: { store: SessionStore }) {
	const seq = useLive(store, ({ state }) => state.seq);
	const all = useListed(store.id)?.seq ?? 0;
	return (
		<Waiting>
			Reading the session's log
			{seq > 0 && all > seq && `: ${seq.toLocaleString('en-GB')} of ${plural(all, 'event')}`}
		</Waiting>
	);
}

function Header({
	store,
	tab,
	inspector,
	toggle,
}: {
	store: SessionStore;
	tab: Tab;
	inspector: boolean;
	toggle: () => void;
}) {
	const { id } = store;
	const listed = useListed(id);
	// Until the log was read the list knows better.
	const whole = useLive(store, (one) => one.whole);
	const own = useLive(store, ({ state }) => state.title);
	const title = own || listed?.title || '';
	const environment = useLive(store, ({ state }) => state.environment) || listed?.environment;
	const branch = useLive(store, ({ state }) => state.delivery?.branch ?? null);
	const derived = useLive(store, ({ state }) => statusOf(state));
	const status = whole ? derived : listed?.status;
	const cost = useLive(store, ({ state }) => state.spend.cost_usd);
	const reports = useLive(store, ({ state }) => lastReports(state).map((one) => one.report.passed ?? null));
	const receipt = useLive(store, ({ state }) => state.turns.findLast((turn) => turn.receipt)?.receipt ?? null);
	const good = reports.filter((passed) => passed === true).length;
	const bad = reports.filter((passed) => passed === false).length;
	const rename = () => {
		const text = window.prompt('Title of the session', title)?.trim();
		if (text && text !== title) send('PATCH', `/sessions/${id}`, { title: text }).catch(complain);
	};
	const label: Record<Tab, React.ReactNode> = {
		session: 'Session',
		changes: (
			<>
				Changes
				{receipt?.files_changed ? (
					<span className="tabular ml-1 text-xs">
						<span className="text-good">+{receipt.insertions}</span>{' '}
						<span className="text-bad">−{receipt.deletions}</span>
					</span>
				) : null}
			</>
		),
		checks: (
			<>
				Checks
				{good + bad > 0 && (
					<span className="tabular ml-1 text-xs">
						{good > 0 && <span className="text-good">{good} pass</span>}{' '}
						{bad > 0 && <span className="text-bad">{bad} fail</span>}
					</span>
				)}
			</>
		),
		terminal: 'Terminal',
		files: 'Files',
		events: 'Events',
	};
	return (
		<header className="shrink-0 border-b border-line">
			<div className="flex min-h-11 items-center gap-3 pr-2 pl-4">
				<div className="flex min-w-0 flex-1 items-center gap-x-3 max-md:flex-col max-md:items-stretch max-md:py-1">
					{/* The title has the room; the branch gives way first. */}
					<h1 className="max-w-[75%] shrink-0 truncate font-semibold max-md:max-w-full" title={visible(title)}>
						{visible(title) || 'Session'}
					</h1>
					<span className="min-w-0 truncate text-xs text-muted max-md:hidden">
						{environment}
						{branch && ` · ${visible(branch)}`}
					</span>
					<span className="tabular ml-auto flex shrink-0 items-center gap-3 text-xs max-md:ml-0">
						{listed?.archived && <span className="text-muted">archived</span>}
						{status && <StatusMark status={status} />}
						{whole && <Elapsed store={store} />}
						{whole && cost > 0 && <span className="text-muted">{money(cost)}</span>}
					</span>
				</div>
				<Stop store={store} button={tab !== 'session'} />
				<Menu
					label="Session"
					trigger={<IconButton icon="more" label="More" />}
					items={[
						{ label: 'Rename', icon: 'edit', onSelect: rename },
						{
							label: 'Copy the address',
							icon: 'link',
							onSelect: () => {
								navigator.clipboard?.writeText(location.origin + paths.session(id)).then(() => say('Copied'), complain);
							},
						},
						{
							label: listed?.archived ? 'Bring it back' : 'Archive',
							icon: 'archive',
							hint: 'e',
							onSelect: () => archive({ id, archived: listed?.archived ?? false }),
						},
					]}
				/>
				<IconButton
					icon="panel"
					label={inspector ? 'Hide the details' : 'Show the details'}
					aria-expanded={inspector}
					onClick={toggle}
				/>
			</div>
			<Tabs
				label="Parts of the session"
				current={tab}
				tabs={tabs.map((one) => ({
					key: one,
					label: label[one],
					to: paths.session(id, one === 'session' ? '' : one),
				}))}
			/>
		</header>
	);
}

function Elapsed({ store }: { store: SessionStore }) {
	const working = useLive(store, ({ state }) => currentTurn(state) !== null);
	return working ? <Counting store={store} /> : <Took store={store} />;
}

function Counting({ store }: { store: SessionStore }) {
	const now = useNow();
	return <span className="text-muted">{duration(turnElapsed(store.state, now) ?? 0)}</span>;
}

function Took({ store }: { store: SessionStore }) {
	const took = useLive(store, ({ state }) => turnElapsed(state, 0));
	return took === null ? null : <span className="text-muted">{duration(took)}</span>;
}

/** Says when the connection is not there, and when it came back and what it brought. */
function Banner({ store }: { store: SessionStore }) {
	const link = useLink();
	const now = useNow();
	const caught = useLive(store, (one) => one.caughtUp);
	if (link.state === 'lost' || (link.state === 'connecting' && store.state.seq > 0 && !store.state.live)) {
		const next = link.state === 'lost' ? Math.max(0, Math.ceil((link.retryAt - now) / 1000)) : 0;
		return (
			<p role="status" className="border-b border-line bg-needs-soft px-4 py-1 text-xs text-needs">
				The server cannot be reached. The agent's work is not affected, and what you write is kept.{' '}
				{next > 0 ? `Next try in ${next} s.` : 'Trying now.'}
			</p>
		);
	}
	if (caught && now - caught.at < CAUGHT_MS) {
		return (
			<p role="status" className="appear border-b border-line bg-good-soft px-4 py-1 text-xs text-good">
				Caught up, {caught.events} {caught.events === 1 ? 'event' : 'events'}.
			</p>
		);
	}
	return null;
}
