// The forges, and who one is at each: pull requests of one's prompts are then opened in one's own name. Tokens go in and never
// come out.
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { ApiError, get, inWords, send } from '../../api/client';
import { queries } from '../../api/queries';
import type { DeviceLogin, DeviceState, ForgeLogin } from '../../api/types';
import { duration } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { useNow } from '../../ui/now';
import { Button, Empty, Failure, IconButton, Waiting } from '../../ui/parts';
import { complain, say } from '../../ui/toast';

const key = ['logins'] as const;
const kinds: Record<string, string> = { github: 'GitHub', gitlab: 'GitLab', gitea: 'Gitea or Forgejo' };

/** An address that a forge gave, only if following it can do no harm. */
export function webAddress(text: string): string | null {
	try {
		const url = new URL(text);
		return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : null;
	} catch {
		return null;
	}
}

export function Logins() {
	const logins = useQuery({
		queryKey: key,
		queryFn: async ({ signal }) => (await get<{ logins: ForgeLogin[] }>('/logins', signal)).logins,
	});
	if (logins.error && !logins.data) return <Failure error={logins.error} again={() => logins.refetch()} />;
	if (!logins.data) return <Waiting>Asking who you are at the forges</Waiting>;
	if (logins.data.length === 0)
		return (
			<Empty title="No forge yet">
				Describe one in slipway.toml, under <code>[forges.github]</code>, and start the server again. Branches are
				pushed without one; pull requests need it.
			</Empty>
		);
	return (
		<div className="flex flex-col gap-4">
			<p className="text-sm text-muted">
				Where you have signed in, pull requests of your prompts are yours. Elsewhere the server opens them in its own
				name. What you give here is kept sealed, and nobody can read it again.
			</p>
			<ul className="flex flex-col gap-3">
				{logins.data.map((login) => (
					<li key={login.forge}>
						<Forge login={login} />
					</li>
				))}
			</ul>
		</div>
	);
}

function Forge({ login }: { login: ForgeLogin }) {
	const [device, setDevice] = useState<Begun | null>(null);
	const [byToken, setByToken] = useState(false);
	const [busy, setBusy] = useState(false);
	const path = `/logins/${encodeURIComponent(login.forge)}`;
	const act = async (what: () => Promise<unknown>) => {
		setBusy(true);
		try {
			await what();
		} catch (error) {
			complain(error);
		} finally {
			setBusy(false);
		}
	};
	const signedIn = (name: string) => {
		setDevice(null);
		setByToken(false);
		say(`Signed in at ${login.forge} as ${name}`);
		return queries.invalidateQueries({ queryKey: key });
	};
	const begin = () =>
		act(async () => setDevice({ ...(await send<DeviceLogin>('POST', `${path}/device`)), since: Date.now() }));
	const leave = () =>
		act(async () => {
			await send('DELETE', path);
			await queries.invalidateQueries({ queryKey: key });
			say(`Your token for ${login.forge} is forgotten. There it stays good until you revoke it.`);
		});
	const asksForToken = !login.login && !device && (byToken || !login.device);
	return (
		<section aria-label={login.forge} className="rounded-md border border-line p-3">
			<div className="flex flex-wrap items-center gap-x-3 gap-y-1">
				<h2 className="font-semibold">{login.forge}</h2>
				<span className="text-sm break-words text-muted">
					{kinds[login.kind] ?? login.kind} · {login.url}
				</span>
				<span
					className={`inline-flex min-w-0 items-center gap-1 text-sm break-words ${login.login ? 'text-good' : 'text-muted'}`}
				>
					<Icon name={login.login ? 'check' : 'circle'} size={12} />
					{login.login ? `signed in as ${login.login}` : 'not signed in'}
				</span>
				<span className="ml-auto flex gap-2">
					{login.login ? (
						<Button kind="danger" busy={busy} onClick={leave}>
							Sign out
						</Button>
					) : (
						login.device &&
						!device && (
							<>
								<Button kind="primary" busy={busy} onClick={begin}>
									Sign in
								</Button>
								{!byToken && (
									<Button kind="quiet" onClick={() => setByToken(true)}>
										Use a token
									</Button>
								)}
							</>
						)
					)}
				</span>
			</div>
			{device && <Code path={path} device={device} done={signedIn} close={() => setDevice(null)} />}
			{asksForToken && <Token login={login} path={path} done={signedIn} />}
		</section>
	);
}

type Begun = DeviceLogin & { since: number };

/** The code that is typed in at the forge; looks whether that was done, as often as the forge allows. */
function Code({
	path,
	device,
	done,
	close,
}: {
	path: string;
	device: Begun;
	done: (login: string) => void;
	close: () => void;
}) {
	const now = useNow();
	const [failure, setFailure] = useState<unknown>(null);
	const finish = useRef(done);
	finish.current = done;
	const until = device.since + device.expires_s * 1000;
	const late = now >= until;
	useEffect(() => {
		let timer: ReturnType<typeof setTimeout>;
		let over = false;
		const look = async () => {
			let wait = device.interval_s;
			try {
				const state = await send<DeviceState>('POST', `${path}/device/${encodeURIComponent(device.attempt)}`);
				if (over) return;
				if (state.login) {
					finish.current(state.login);
					return;
				}
				wait = state.interval_s;
			} catch (error) {
				if (over) return;
				// A forge or a server that cannot be reached just now may be there the next time.
				const passing = error instanceof ApiError && (error.status === 0 || error.status >= 500);
				if (!passing) {
					setFailure(error);
					return;
				}
			}
			if (Date.now() < until) timer = setTimeout(look, wait * 1000);
		};
		timer = setTimeout(look, device.interval_s * 1000);
		return () => {
			over = true;
			clearTimeout(timer);
		};
	}, [device, path, until]);
	const address = webAddress(device.url);
	const ended = failure ? inWords(failure).title : late ? 'The code was not typed in in time. Begin again.' : null;
	return (
		<div className="mt-3 flex flex-col gap-2 border-t border-line pt-3 text-sm">
			{ended ? (
				<p role="alert" className="break-words text-bad">
					{ended}
				</p>
			) : (
				<>
					<p className="break-words">
						Open{' '}
						{address ? (
							<a href={address} target="_blank" rel="noopener noreferrer" className="text-accent underline">
								{device.url}
							</a>
						) : (
							<span className="code">{device.url}</span>
						)}{' '}
						and type in this code:
					</p>
					<p className="flex items-center gap-2">
						<output aria-label="The code" className="font-mono text-xl font-semibold tracking-wider">
							{device.code}
						</output>
						<IconButton
							icon="copy"
							label="Copy the code"
							onClick={() =>
								navigator.clipboard?.writeText(device.code).then(() => say('The code is copied'), complain)
							}
						/>
					</p>
					<p className="tabular flex items-center gap-2 text-muted">
						<span aria-hidden="true" className="pulse size-2 rounded-full bg-working" />
						Waiting until it is typed in; it is good for another {duration(Math.max(0, until - now))}
					</p>
				</>
			)}
			<div>
				<Button onClick={close}>{ended ? 'Close' : 'Cancel'}</Button>
			</div>
		</div>
	);
}

function Token({ login, path, done }: { login: ForgeLogin; path: string; done: (login: string) => void }) {
	const [value, setValue] = useState('');
	const [busy, setBusy] = useState(false);
	const [failure, setFailure] = useState<unknown>(null);
	const keep = async (event: FormEvent) => {
		event.preventDefault();
		if (!value.trim()) return;
		setBusy(true);
		setFailure(null);
		try {
			const kept = await send<ForgeLogin>('PUT', path, { token: value.trim() });
			setValue('');
			done(kept.login ?? '');
		} catch (error) {
			setFailure(error);
		} finally {
			setBusy(false);
		}
	};
	return (
		<form onSubmit={keep} className="mt-3 flex flex-col gap-2 border-t border-line pt-3 text-sm">
			<p className="break-words text-muted">
				Make a token in your settings at {login.url}, which may write to repositories. The forge is asked whose it is.
			</p>
			<div className="flex flex-wrap gap-2">
				<input
					type="password"
					autoComplete="off"
					className="field code w-72 max-w-full"
					aria-label={`Your token for ${login.forge}`}
					value={value}
					onChange={(event) => setValue(event.target.value)}
				/>
				<Button type="submit" busy={busy} disabled={!value.trim()}>
					{busy ? 'Asking the forge' : 'Sign in with it'}
				</Button>
			</div>
			{failure != null && <Failure error={failure} />}
		</form>
	);
}
