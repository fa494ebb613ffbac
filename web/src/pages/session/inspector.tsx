// Beside the conversation: the plan, the people, what it may use, the sandbox, what it reached.
import { useListed, useMe, useModels, useSessions } from '../../api/queries';
import type { PlanItem } from '../../api/types';
import { type SessionStore, useLive } from '../../live/store';
import { visible } from '../../text/hidden';
import { bytes, count, duration, fullTime } from '../../ui/format';
import { Icon, type IconName } from '../../ui/icons';
import { useNow } from '../../ui/now';
import { IconButton, Meter } from '../../ui/parts';
import { Link, paths } from '../../ui/router';
import { Budget } from './budget';

export function Inspector({ store, close }: { store: SessionStore; close?: () => void }) {
	return (
		<div className="flex flex-col gap-5 p-4 text-sm">
			{close && (
				<div className="-mb-4 flex justify-end">
					<IconButton icon="cross" label="Close the details" onClick={close} />
				</div>
			)}
			<Plan store={store} />
			<People store={store} />
			<Budget store={store} />
			<Context store={store} />
			<Sandbox store={store} />
			<Egress store={store} />
			<About store={store} />
		</div>
	);
}

export function Part({ title, children }: { title: string; children: React.ReactNode }) {
	return (
		<section>
			<h2 className="heading mb-1">{title}</h2>
			{children}
		</section>
	);
}

const states: Record<PlanItem['state'], { icon: IconName; colour: string; word: string }> = {
	pending: { icon: 'circle', colour: 'text-off', word: 'to do' },
	in_progress: { icon: 'half', colour: 'text-working', word: 'under way' },
	completed: { icon: 'check', colour: 'text-good', word: 'done' },
	skipped: { icon: 'right', colour: 'text-off', word: 'skipped' },
	failed: { icon: 'cross', colour: 'text-bad', word: 'failed' },
};

function Plan({ store }: { store: SessionStore }) {
	const plan = useLive(store, ({ state }) => state.plan);
	if (plan.length === 0) return null;
	const done = plan.filter((item) => item.state === 'completed').length;
	return (
		<Part title={`Plan ${done} of ${plan.length}`}>
			<ol className="flex flex-col gap-1">
				{plan.map((item, at) => {
					const look = states[item.state] ?? states.pending;
					return (
						<li key={at} className="flex items-start gap-2">
							<Icon name={look.icon} size={14} className={`mt-[3px] ${look.colour}`} />
							<span
								className={`min-w-0 break-words ${item.state === 'completed' || item.state === 'skipped' ? 'text-muted' : ''}`}
							>
								{visible(item.text)}
								<span className="sr-only">, {look.word}</span>
							</span>
						</li>
					);
				})}
			</ol>
		</Part>
	);
}

function People({ store }: { store: SessionStore }) {
	const people = useLive(store, ({ state }) => state.people);
	const me = useMe().data?.name;
	if (people.length === 0) return null;
	return (
		<Part title="Watching now">
			<p className="break-words">{people.map((name) => (name === me ? `${name} (you)` : name)).join(', ')}</p>
		</Part>
	);
}

function Context({ store }: { store: SessionStore }) {
	const usage = useLive(store, ({ state }) => state.context);
	const name = useLive(store, ({ state }) => state.standIn ?? state.model);
	const model = useModels().data?.find((one) => one.name === name);
	if (!usage || !model?.context) return null;
	const used =
		(usage.input ?? 0) +
		(usage.cache_read ?? 0) +
		(usage.cache_write ?? 0) +
		(usage.output ?? 0) +
		(usage.reasoning ?? 0);
	return (
		<Part title="Context">
			<p className="tabular mb-1.5 text-xs text-muted">
				{count(used)} of {count(model.context)} tokens of {name}
				{model.context_assumed ? ' (assumed)' : ''}
			</p>
			<Meter label="Context used" value={used} limit={model.context} />
		</Part>
	);
}

function Sandbox({ store }: { store: SessionStore }) {
	const sandbox = useLive(store, ({ state }) => state.sandbox);
	const now = useNow();
	if (!sandbox) return null;
	const words: Record<string, string> = {
		ready: 'up',
		syncing: 'catching up with the branch',
		stopped: 'stopped',
		lost: 'lost',
	};
	return (
		<Part title="Sandbox">
			<p>
				{words[sandbox.state] ?? sandbox.state}{' '}
				<span className="tabular text-muted">{duration(now - Date.parse(sandbox.since))}</span>
			</p>
			{sandbox.detail && <p className="text-xs break-words text-muted">{visible(sandbox.detail)}</p>}
			{sandbox.state === 'stopped' && (
				<p className="text-xs text-muted">Its workspace is kept. The next prompt or a terminal starts it again.</p>
			)}
		</Part>
	);
}

function Egress({ store }: { store: SessionStore }) {
	const hosts = useLive(store, ({ state }) => [...state.egress.values()]);
	if (hosts.length === 0) return null;
	const refused = hosts.filter((host) => !host.allowed);
	return (
		<Part title={`Egress ${hosts.length - refused.length} allowed, ${refused.length} refused`}>
			<ul>
				{hosts.slice(0, 8).map((host) => (
					<li key={`${host.host}:${host.port}:${host.allowed}`} className="flex items-center gap-2" title={host.rule}>
						<Icon
							name={host.allowed ? 'check' : 'cross'}
							size={12}
							className={host.allowed ? 'text-good' : 'text-bad'}
						/>
						<span className="code min-w-0 flex-1 truncate">
							{visible(host.host)}
							<span className="sr-only">{host.allowed ? ', allowed' : ', refused'}</span>
						</span>
						<span className="tabular text-xs text-muted">
							{host.allowed ? bytes(host.received) : `${host.connections}×`}
						</span>
					</li>
				))}
			</ul>
			<Link
				to={paths.session(store.id, 'events')}
				className="target inline-flex items-center text-xs text-accent underline"
			>
				All connections
			</Link>
		</Part>
	);
}

/** Where a session was made, in words. */
const origins: Record<string, string> = {
	api: 'a program',
	web: 'this app',
	cli: 'the command line',
	slack: 'Slack',
	forge: 'a forge',
	extension: 'the browser extension',
	agent: 'another agent',
};

function About({ store }: { store: SessionStore }) {
	const environment = useLive(store, ({ state }) => state.environment);
	const model = useLive(store, ({ state }) => state.model);
	const created = useLive(store, ({ state }) => state.createdAt);
	const forked = useLive(store, ({ state }) => state.forkedFrom);
	const delivery = useLive(store, ({ state }) => state.delivery);
	const repositories = useLive(store, ({ state }) => state.recipe?.repos);
	const listed = useListed(store.id);
	const sessions = useSessions().data?.sessions ?? [];
	const parent = listed?.parent ?? forked;
	const children = sessions.filter((session) => session.parent === store.id);
	const rows: [string, React.ReactNode][] = [
		[
			'Environment',
			<Link key="e" to={paths.environment(environment)} className="text-accent hover:underline">
				{environment}
			</Link>,
		],
		['Model', model],
	];
	for (const repository of repositories ?? [])
		rows.push([
			repositories?.length === 1 ? 'Repository' : (repository.path ?? repository.url.replace(/.*\//, '')),
			<span key={repository.url} className="code">
				{visible(repository.url)}
			</span>,
		]);
	if (delivery)
		rows.push([
			'Branch',
			<span key="b" className="code">
				{visible(delivery.branch)}
			</span>,
		]);
	if (created) rows.push(['Since', fullTime(created)]);
	if (listed?.origin) rows.push(['Came from', origins[listed.origin] ?? listed.origin]);
	if (listed?.authors?.length) rows.push(['Asked by', listed.authors.map((author) => author.name).join(', ')]);
	if (parent)
		rows.push([
			forked ? 'Forked from' : 'Part of',
			<Link key="f" to={paths.session(parent)} className="text-accent hover:underline">
				{visible(sessions.find((session) => session.id === parent)?.title ?? 'another session')}
			</Link>,
		]);
	for (const child of children)
		rows.push([
			'Has',
			<Link key={child.id} to={paths.session(child.id)} className="text-accent hover:underline">
				{visible(child.title)}
			</Link>,
		]);
	return (
		<Part title="About">
			<dl className="text-xs">
				{rows.map(([name, value], at) => (
					// Several rows can have one name, and none changes its place.
					<div key={`${at} ${name}`} className="flex gap-2 py-0.5">
						<dt className="w-20 shrink-0 text-muted">{name}</dt>
						<dd className="min-w-0 break-words">{value}</dd>
					</div>
				))}
			</dl>
		</Part>
	);
}
