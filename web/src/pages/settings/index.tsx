// Settings: models and whether they work, what sessions may spend, who is known, who one is at the forges, and what concerns
// this browser only.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { get, keepToken, token } from '../../api/client';
import { queries, useMe } from '../../api/queries';
import type { Settings as ServerSettings } from '../../api/types';
import { live } from '../../live/link';
import { canNotify, notifies, switchNotifications } from '../../live/notify';
import { money, plural } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Button, Failure, Segments, Tabs, Waiting } from '../../ui/parts';
import { paths } from '../../ui/router';
import { setTheme, type Theme, theme } from '../../ui/theme';
import { say } from '../../ui/toast';
import { Logins } from './logins';
import { Models } from './models';

const tabs = ['models', 'budgets', 'people', 'tokens', 'forges', 'browser'] as const;
const words = {
	models: 'Models',
	budgets: 'Budgets',
	people: 'People',
	tokens: 'Tokens',
	forges: 'Forges',
	browser: 'This browser',
};

export default function Settings({ tab }: { tab?: string }) {
	const current = tabs.find((one) => one === tab) ?? 'models';
	return (
		<div className="flex min-h-0 flex-1 flex-col">
			<header className="shrink-0 border-b border-line">
				<h1 className="flex min-h-11 items-center px-4 font-semibold">Settings</h1>
				<Tabs
					label="Parts of the settings"
					current={current}
					tabs={tabs.map((one) => ({ key: one, label: words[one], to: paths.settings(one === 'models' ? '' : one) }))}
				/>
			</header>
			<div className="min-h-0 flex-1 overflow-y-auto">
				<div className="mx-auto max-w-[900px] p-4">
					{current === 'models' && <Models />}
					{current === 'budgets' && <Known>{(settings) => <Budgets settings={settings} />}</Known>}
					{current === 'people' && <Known>{(settings) => <People settings={settings} />}</Known>}
					{current === 'tokens' && <Known>{(settings) => <Tokens settings={settings} />}</Known>}
					{current === 'forges' && <Logins />}
					{current === 'browser' && <Browser />}
				</div>
			</div>
		</div>
	);
}

function Known({ children }: { children: (settings: ServerSettings) => React.ReactNode }) {
	const settings = useQuery({
		queryKey: ['settings'],
		queryFn: ({ signal }) => get<ServerSettings>('/settings', signal),
	});
	if (settings.error) return <Failure error={settings.error} again={() => settings.refetch()} />;
	if (!settings.data) return <Waiting>Asking the server</Waiting>;
	return children(settings.data);
}

function Budgets({ settings: { budgets } }: { settings: ServerSettings }) {
	const rows = [
		{ name: 'Each turn', part: 'turn', budget: budgets.turn },
		{ name: 'All of a session', part: 'session', budget: budgets.session },
	];
	const of = (value: number | null | undefined, say: (value: number) => string) =>
		value == null ? 'no limit' : say(value);
	return (
		<div className="flex flex-col gap-4">
			<p className="text-sm text-muted">
				What sessions may use unless somebody says otherwise. A session that comes to a limit stops and says so; its own
				budget is changed on its page, under Budget.
			</p>
			<table className="tabular w-full text-left text-sm">
				<thead className="text-xs text-muted">
					<tr>
						{['', 'Money', 'Tokens', 'Time', 'Steps'].map((head) => (
							<th key={head} scope="col" className="py-1 pr-4 font-medium">
								{head || <span className="sr-only">Of what</span>}
							</th>
						))}
					</tr>
				</thead>
				<tbody>
					{rows.map(({ name, budget }) => (
						<tr key={name} className="border-t border-line">
							<th scope="row" className="py-2 pr-4 font-medium">
								{name}
							</th>
							<td className="pr-4">{of(budget?.usd, money)}</td>
							<td className="pr-4">{of(budget?.tokens, (tokens) => tokens.toLocaleString('en-GB'))}</td>
							<td className="pr-4">{of(budget?.seconds, (seconds) => plural(Math.round(seconds / 60), 'minute'))}</td>
							<td>{of(budget?.steps, (steps) => steps.toLocaleString('en-GB'))}</td>
						</tr>
					))}
				</tbody>
			</table>
			<Written what="Budgets" />
			<Snippet title="To change them, in slipway.toml">
				{'[budget.session]\nusd = 5.0\n\n[budget.turn]\nsteps = 100'}
			</Snippet>
		</div>
	);
}

function People({ settings }: { settings: ServerSettings }) {
	const me = useMe().data?.name;
	return (
		<div className="flex flex-col gap-4">
			<p className="text-sm text-muted">
				Who is known by name. Prompts and approvals are kept under these names, and commits are by whom it says here.
			</p>
			<ul className="divide-y divide-line border-y border-line">
				{settings.people.map((person) => (
					<li key={person.name} className="flex min-h-10 flex-wrap items-center gap-x-4 py-1 text-sm">
						<Icon name="person" className="text-muted" />
						<span className="font-medium">
							{person.name}
							{person.name === me && <span className="font-normal text-muted"> (you)</span>}
						</span>
						<span className="min-w-0 flex-1 break-words text-muted">{person.author}</span>
						<span className="text-xs text-muted">{person.token ? 'has a token' : 'no token of their own'}</span>
					</li>
				))}
			</ul>
			{settings.people.length === 0 && <p className="text-sm">Nobody but whoever runs the server.</p>}
			<Written what="People" />
			<Snippet title="To add somebody, in slipway.toml">
				{
					'[people.ann]\nname = "Ann Example"\nemail = "ann@example.com"\n\n[server]\ntokens = { ann = "SLIPWAY_TOKEN_ANN" }'
				}
			</Snippet>
		</div>
	);
}

function Tokens({ settings }: { settings: ServerSettings }) {
	const [mine, setMine] = useState(token);
	const [value, setValue] = useState('');
	const enter = (next: string | null) => {
		keepToken(next);
		setMine(next);
		live.again();
		queries.invalidateQueries();
		setValue('');
		say(next ? 'This browser has another token' : 'This browser has no token any more');
	};
	const holders = settings.people.filter((person) => person.token);
	return (
		<div className="flex flex-col gap-6">
			<section>
				<h2 className="heading mb-1">The server</h2>
				<p className="text-sm">
					{settings.needs_token
						? 'It demands a token from everybody.'
						: 'It answers programs on its own machine without a token, and nobody else.'}
				</p>
				<p className="text-sm text-muted">
					{holders.length
						? `Tokens of their own: ${holders.map((person) => person.name).join(', ')}.`
						: 'Nobody has a token of their own.'}{' '}
					Values are in variables of the server's environment, and are shown nowhere.
				</p>
			</section>
			<section>
				<h2 className="heading mb-1">This browser</h2>
				<p className="mb-2 text-sm">{mine ? 'It has a token.' : 'It has no token.'}</p>
				<form
					className="flex flex-wrap gap-2"
					onSubmit={(event) => {
						event.preventDefault();
						if (value.trim()) enter(value.trim());
					}}
				>
					<input
						className="field code w-72 max-w-full"
						type="password"
						autoComplete="off"
						aria-label="A token for this browser"
						value={value}
						onChange={(event) => setValue(event.target.value)}
					/>
					<Button type="submit" disabled={!value.trim()}>
						Use it
					</Button>
					{mine && (
						<Button kind="danger" onClick={() => enter(null)}>
							Sign out
						</Button>
					)}
				</form>
			</section>
			<Written what="Tokens of people" />
			<Snippet title="To make a token for somebody">
				{
					'# in the environment of the server\nSLIPWAY_TOKEN_ANN=$(openssl rand -hex 32)\n\n# in slipway.toml\n[server]\ntokens = { ann = "SLIPWAY_TOKEN_ANN" }\n\n# a link that signs her in\nhttps://slipway.example.com/#token=…'
				}
			</Snippet>
		</div>
	);
}

function Browser() {
	const [look, setLook] = useState(theme());
	const [told, setTold] = useState(notifies());
	return (
		<div className="flex flex-col gap-6">
			<section className="flex flex-wrap items-center gap-3">
				<h2 className="w-40 text-sm font-medium">Look</h2>
				<Segments<Theme>
					label="Look"
					value={look}
					options={[
						{ value: 'system', label: 'As the system is' },
						{ value: 'light', label: 'Light' },
						{ value: 'dark', label: 'Dark' },
					]}
					onChange={(value) => {
						setTheme(value);
						setLook(value);
					}}
				/>
			</section>
			<section className="flex flex-wrap items-center gap-3">
				<h2 className="w-40 text-sm font-medium">Notifications</h2>
				<Button
					disabled={!canNotify()}
					aria-pressed={told}
					icon="bell"
					onClick={async () => setTold(await switchNotifications(!told))}
				>
					{told ? 'On' : 'Off'}
				</Button>
				<p className="min-w-0 flex-1 text-sm text-muted max-md:basis-full">
					{canNotify()
						? 'Told of: needs you, finished, failed. Not while this tab is in front.'
						: 'This browser has none, or the page is not served over HTTPS.'}
				</p>
			</section>
		</div>
	);
}

/** Says honestly what cannot be done here. */
function Written({ what }: { what: string }) {
	return (
		<p className="text-sm">
			{what} are in the configuration file, and the server offers no way to change that file from a browser. Change it
			there, and start the server again; agents go on with what they do.
		</p>
	);
}

function Snippet({ title, children }: { title: string; children: string }) {
	return (
		<section>
			<h2 className="heading mb-1">{title}</h2>
			{/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable from the keyboard. */}
			<pre tabIndex={0} className="code overflow-x-auto rounded-md border border-line bg-sunken p-3">
				{children}
			</pre>
		</section>
	);
}
