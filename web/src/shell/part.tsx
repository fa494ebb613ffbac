// Parts of the app that are fetched when they are wanted, or before that when the browser has nothing to do. One that could
// not be fetched says so in its own place, and is fetched again when somebody asks or when the server is back: a promise that
// was broken once is not kept, as `React.lazy` would.
import { type ComponentType, Fragment, type ReactNode, useEffect, useState } from 'react';
import { live } from '../live/link';
import { useLink } from '../live/store';
import { Button, Failure, Waiting } from '../ui/parts';
import { lookForNewVersion, useNewVersion } from './version';

interface Loader {
	there: () => boolean;
	fetch: () => Promise<void>;
}

const loaders: Loader[] = [];

/** Styles that could not be fetched. They came into the page with a part, and nobody else asks for them again. */
const lostStyles = new Set<HTMLLinkElement>();
window.addEventListener(
	'error',
	({ target }) => {
		if (target instanceof HTMLLinkElement && target.rel === 'stylesheet') lostStyles.add(target);
	},
	true,
);

async function fetchStylesAgain() {
	const all = [...lostStyles].map(
		(lost) =>
			new Promise<void>((done, failed) => {
				lostStyles.delete(lost);
				const link = document.createElement('link');
				link.rel = 'stylesheet';
				link.onload = () => done();
				link.onerror = () => failed(new Error(`${lost.href} could not be fetched`));
				link.href = lost.href;
				lost.replaceWith(link);
			}),
	);
	await Promise.all(all);
}

type Around<P> = ComponentType<P & { children: ReactNode }>;

/** `around` is for what a part brings besides its content, such as the dialogue that it is in: it is there meanwhile. */
export function part<P extends object>(load: () => Promise<{ default: ComponentType<P> }>, around?: Around<P>) {
	let made: ComponentType<P> | null = null;
	let under: Promise<void> | null = null;
	const fetch = () => {
		under ??= fetchStylesAgain()
			.then(load)
			.then((module) => {
				made = module.default;
			})
			.finally(() => {
				under = null;
			});
		return under;
	};
	loaders.push({ there: () => made !== null, fetch });

	return function Part(props: P) {
		const [Made, setMade] = useState(() => made);
		const [error, setError] = useState<unknown>(null);
		const [tries, setTries] = useState(0);
		const open = useLink().state === 'open';
		const failed = error !== null;
		// biome-ignore lint/correctness/useExhaustiveDependencies: each try is one of its own, and so is a server that came back.
		useEffect(() => {
			if (Made) return;
			let here = true;
			fetch().then(
				() => here && setMade(() => made),
				(why: unknown) => {
					if (!here) return;
					setError(why);
					if (live.link.state === 'open') lookForNewVersion();
				},
			);
			return () => {
				here = false;
			};
		}, [Made, tries, open]);
		if (Made) return <Made {...props} />;
		const Place = (around ?? Fragment) as Around<P>;
		const given = around ? props : ({} as P);
		return (
			<Place {...given}>
				{failed ? (
					<Missing
						reachable={open}
						again={() => {
							setError(null);
							setTries(tries + 1);
						}}
					/>
				) : (
					<Waiting>Fetching this part of the app</Waiting>
				)}
			</Place>
		);
	};
}

/** Why a part is not there, and what helps. */
function Missing({ reachable, again }: { reachable: boolean; again: () => void }) {
	const newer = useNewVersion();
	if (reachable && newer) {
		return (
			<div className="p-4">
				<NewVersion />
			</div>
		);
	}
	const title = reachable
		? 'This part of the app could not be fetched'
		: 'This part of the app is not here yet, and the server cannot be reached';
	return (
		<div className="flex flex-col items-start gap-2 p-4">
			<Failure error={new Error(title)} again={again} className="self-stretch" />
			<p className="text-sm text-muted">
				{reachable
					? 'What you wrote is kept. If trying again does not help, load the page again.'
					: 'It is fetched by itself when the server is back. What you wrote is kept.'}
			</p>
			{reachable && <Button onClick={() => location.reload()}>Load the page again</Button>}
		</div>
	);
}

/** That there is a newer build of the app, and a way to it. Nothing is loaded behind somebody's back. */
export function NewVersion() {
	const newer = useNewVersion();
	if (!newer) return null;
	return (
		<p
			role="status"
			className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b border-line bg-accent-soft px-4 py-1 text-xs"
		>
			<span>There is a new version of Slipway. What you wrote is kept.</span>
			<Button className="h-6" onClick={() => location.reload()}>
				Load it
			</Button>
		</p>
	);
}

/** Fetches what is not here yet, one after the other, while nothing else is to be done; then it is there when the server is not. */
export function fetchTheRest() {
	const connection = (navigator as { connection?: { saveData?: boolean } }).connection;
	if (connection?.saveData) return () => undefined;
	let stopped = false;
	let waits = false;
	// One that cannot be had does not keep the others away; it has another chance when the connection is another one.
	let tried = new Set<Loader>();
	const idle = (what: () => void) =>
		'requestIdleCallback' in window ? requestIdleCallback(what, { timeout: 10_000 }) : setTimeout(what, 1_000);
	const later = () => {
		if (waits || stopped) return;
		waits = true;
		idle(() => {
			waits = false;
			const next = loaders.find((one) => !one.there() && !tried.has(one));
			if (stopped || !next || live.link.state !== 'open') return;
			tried.add(next);
			next.fetch().then(later, later);
		});
	};
	const stop = live.watch(() => {
		tried = new Set();
		later();
	});
	later();
	return () => {
		stopped = true;
		stop();
	};
}
