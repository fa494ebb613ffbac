// Secrets that this environment's sandboxes use. Values go in and never come out.
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { get, send } from '../../api/client';
import { queries } from '../../api/queries';
import type { NamedEnvironment, StoredSecret } from '../../api/types';
import { fullTime } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Button, Failure, Waiting } from '../../ui/parts';
import { Link, paths } from '../../ui/router';
import { complain, say } from '../../ui/toast';

export function useSecrets() {
	return useQuery({
		queryKey: ['secrets'],
		queryFn: async ({ signal }) => (await get<{ secrets: StoredSecret[] }>('/secrets', signal)).secrets,
	});
}

export function Secrets({ environment }: { environment: NamedEnvironment }) {
	const secrets = useSecrets();
	const wanted = environment.secrets ?? [];
	if (secrets.error && !secrets.data) return <Failure error={secrets.error} again={() => secrets.refetch()} />;
	if (!secrets.data) return <Waiting>Looking at the names of the secrets</Waiting>;
	const stored = new Map(secrets.data.map((one) => [one.name, one]));
	return (
		<div className="flex flex-col gap-4">
			<p className="text-sm text-muted">
				A secret is put into requests on their way out, to the hosts that its recipe names. It is never in the sandbox,
				and nobody can read it here again.
			</p>
			{wanted.length === 0 && (
				<p className="text-sm">
					The recipe of this environment uses no secret. Add one under <code>secrets</code> in the{' '}
					<Link to={paths.environment(environment.name, 'recipe')} className="text-accent underline">
						recipe
					</Link>
					.
				</p>
			)}
			<ul className="flex flex-col gap-3">
				{wanted.map((use) => (
					<li key={use.name} className="rounded-md border border-line p-3">
						<div className="flex flex-wrap items-baseline gap-x-3">
							<span className="font-medium">{use.name}</span>
							<span className="code min-w-0 text-muted">to {use.hosts.join(', ')}</span>
						</div>
						{use.secret ? (
							<StoredValue name={use.secret} stored={stored.get(use.secret)} />
						) : (
							<p className="mt-1 text-sm text-muted">
								Its value is read from {use.env ? `the variable ${use.env}` : (use.file ?? 'outside')} of the server.
							</p>
						)}
					</li>
				))}
			</ul>
		</div>
	);
}

/** One secret of the server: whether it is set, and a field that takes a value and shows none. */
export function StoredValue({ name, stored }: { name: string; stored: StoredSecret | undefined }) {
	const [value, setValue] = useState('');
	const [busy, setBusy] = useState(false);
	const path = `/secrets/${encodeURIComponent(name)}`;
	const act = async (method: string, body: object | undefined, done: string) => {
		setBusy(true);
		try {
			await send(method, path, body);
			setValue('');
			say(done);
			await queries.invalidateQueries({ queryKey: ['secrets'] });
		} catch (error) {
			complain(error);
		} finally {
			setBusy(false);
		}
	};
	const set = (event: FormEvent) => {
		event.preventDefault();
		if (value) act('PUT', { value }, `${name} is set`);
	};
	return (
		<div className="mt-2 flex flex-col gap-2">
			<p className="flex items-center gap-2 text-sm">
				<Icon
					name={stored?.problem ? 'warning' : stored?.set_at ? 'check' : 'circle'}
					size={14}
					className={stored?.problem ? 'text-bad' : stored?.set_at ? 'text-good' : 'text-needs'}
				/>
				<span className="code">{name}</span>
				<span className="text-muted">{stored?.set_at ? `set ${fullTime(stored.set_at)}` : 'is not set'}</span>
			</p>
			{stored?.problem && <p className="text-sm text-bad">{stored.problem}</p>}
			<form onSubmit={set} className="flex flex-wrap gap-2">
				<input
					type="password"
					autoComplete="off"
					className="field code w-72 max-w-full"
					aria-label={`Value of ${name}`}
					placeholder={stored?.set_at ? 'Another value' : 'Its value'}
					value={value}
					onChange={(event) => setValue(event.target.value)}
				/>
				<Button type="submit" busy={busy} disabled={!value}>
					{stored?.set_at ? 'Replace' : 'Set'}
				</Button>
				{stored?.set_at && (
					<Button kind="danger" busy={busy} onClick={() => act('DELETE', undefined, `${name} is removed`)}>
						Remove
					</Button>
				)}
			</form>
		</div>
	);
}
