// The frame: who one is, the sidebar, and the page that the address names. A page is one line in `pages` below.
import { type ComponentType, useEffect, useState } from 'react';
import { ApiError } from './api/client';
import { useMe, useSessions } from './api/queries';
import { askAgainWhenBack, keepListFresh } from './live/list';
import { watchForNotifications } from './live/notify';
import { keepSending } from './live/outbox';
import { Help } from './shell/help';
import { fetchTheRest, NewVersion, part } from './shell/part';
import { Away, Sidebar } from './shell/sidebar';
import { SignIn } from './shell/sign-in';
import { watchForNewVersion } from './shell/version';
import { Icon } from './ui/icons';
import { focusWhenThere, useKeys } from './ui/keys';
import { usePhone } from './ui/media';
import { Dialog, Empty, IconButton } from './ui/parts';
import { go, Link, match, paths, usePath } from './ui/router';
import { Safe } from './ui/safe';
import { Toasts } from './ui/toast';

const Palette = part(
	() => import('./shell/palette'),
	({ close, children }) => (
		<Dialog open onClose={close} label="Find anything" top>
			{children}
		</Dialog>
	),
);
const NewSession = part(() => import('./pages/new-session'));
const Session = part(() => import('./pages/session'));
const Sessions = part(() => import('./pages/sessions'));
const Environments = part(() => import('./pages/environments'));
const Statistics = part(() => import('./pages/statistics'));
const Settings = part(() => import('./pages/settings'));

// biome-ignore lint/suspicious/noExplicitAny: each page takes the values that its own pattern has.
type Page = ComponentType<any>;

const pages: { pattern: string; page: Page; title: string }[] = [
	{ pattern: '/', page: Sessions, title: 'Sessions' },
	{ pattern: '/new', page: NewSession, title: 'New session' },
	{ pattern: '/s/:id/:tab?', page: Session, title: 'Session' },
	{ pattern: '/environments', page: Environments, title: 'Environments' },
	{ pattern: '/environments/:name/:tab?', page: Environments, title: 'Environment' },
	{ pattern: '/statistics', page: Statistics, title: 'Statistics' },
	{ pattern: '/settings/:tab?', page: Settings, title: 'Settings' },
];

export function App() {
	const me = useMe();
	if (me.error instanceof ApiError && me.error.status === 401) return <SignIn />;
	return <Frame />;
}

function Frame() {
	const path = usePath();
	const phone = usePhone();
	const [palette, setPalette] = useState(false);
	const [help, setHelp] = useState(false);
	const [sheet, setSheet] = useState(false);
	useEffect(keepListFresh, []);
	useEffect(watchForNotifications, []);
	useEffect(askAgainWhenBack, []);
	useEffect(keepSending, []);
	useEffect(watchForNewVersion, []);
	useEffect(fetchTheRest, []);
	// biome-ignore lint/correctness/useExhaustiveDependencies: another page closes what lies over it.
	useEffect(() => setSheet(false), [path]);
	useKeys({
		'mod+k': () => setPalette(true),
		'?': () => setHelp(true),
		c: () => go(paths.newSession()),
		// Where they are listed already, the list stays as it was filtered.
		'/': () => {
			if (path !== paths.sessions()) go(paths.sessions());
			focusWhenThere('search');
		},
		'g s': () => go(paths.sessions()),
		'g i': () => go(paths.sessions()),
		'g e': () => go(paths.environments()),
		'g t': () => go(paths.statistics()),
		',': () => go(paths.settings()),
	});
	const found = pages.map((page) => ({ ...page, values: match(page.pattern, path) })).find((page) => page.values);
	const title = found?.title ?? 'Not found';
	useEffect(() => {
		if (title !== 'Session') document.title = `${title} · Slipway`;
	}, [title]);
	return (
		// What is there for those who listen only has no place of its own; it must not make the page longer.
		<div className="relative flex h-dvh overflow-clip max-md:flex-col">
			<a
				href="#main"
				className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:m-2 focus:rounded-md focus:bg-surface focus:px-3 focus:py-2"
			>
				Skip to the page
			</a>
			{phone ? (
				<>
					<header className="flex h-12 shrink-0 items-center gap-1 border-b border-line px-1 pt-[env(safe-area-inset-top)]">
						<IconButton icon="menu" label="Menu" onClick={() => setSheet(true)} />
						<Link to="/" className="target flex flex-1 items-center gap-2 font-semibold">
							<Icon name="ship" className="text-accent" /> Slipway
						</Link>
						<IconButton icon="search" label="Find anything" onClick={() => setPalette(true)} />
						<IconButton icon="plus" label="New session" onClick={() => go(paths.newSession())} />
					</header>
					<Away />
					{sheet && (
						<Dialog open side="left" onClose={() => setSheet(false)} label="Menu">
							<Safe>
								<Sidebar
									openPalette={() => {
										setSheet(false);
										setPalette(true);
									}}
									close={() => setSheet(false)}
								/>
							</Safe>
						</Dialog>
					)}
				</>
			) : (
				<div className="w-[264px] shrink-0 border-r border-line max-lg:w-[224px]">
					<Safe>
						<Sidebar openPalette={() => setPalette(true)} />
					</Safe>
				</div>
			)}
			<main id="main" tabIndex={-1} className="flex min-h-0 min-w-0 flex-1 flex-col outline-none">
				<NewVersion />
				<KeptList />
				{found ? (
					<Safe key={found.pattern} of={path}>
						<Arrival path={path} />
						<found.page {...found.values} />
					</Safe>
				) : (
					<Empty title="There is nothing at this address">
						<Link to="/" className="text-accent underline">
							All sessions
						</Link>
					</Empty>
				)}
			</main>
			{palette && (
				<Safe>
					<Palette close={() => setPalette(false)} showHelp={() => setHelp(true)} />
				</Safe>
			)}
			<Help open={help} close={() => setHelp(false)} />
			<Toasts />
		</div>
	);
}

/** The list is asked for whatever page there is: what needs somebody is told of from it, also where it is out of sight. */
function KeptList() {
	useSessions();
	return null;
}

/** Whoever followed a link that is gone with its page goes on in the page that came, not at the top of everything. */
function Arrival({ path }: { path: string }) {
	// biome-ignore lint/correctness/useExhaustiveDependencies: another page is another place.
	useEffect(() => {
		if (document.activeElement === document.body) document.getElementById('main')?.focus({ preventScroll: true });
	}, [path]);
	return null;
}
