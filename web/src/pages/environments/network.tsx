// What sandboxes may reach, what they were refused, and one click to allow it.

import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { get, send } from '../../api/client';
import { queries } from '../../api/queries';
import type { EgressStatus, NamedEnvironment } from '../../api/types';
import { visible } from '../../text/hidden';
import { agoWords, fullTime } from '../../ui/format';
import { useNow } from '../../ui/now';
import { Button, Failure, Waiting } from '../../ui/parts';
import { complain, say } from '../../ui/toast';
import { linesFor } from './lines';

export function Network({ environment: { name, source } }: { environment: NamedEnvironment }) {
	const path = `/environments/${encodeURIComponent(name)}/egress`;
	const [host, setHost] = useState('');
	const [busy, setBusy] = useState<string | null>(null);
	const [wanted, setWanted] = useState<string[]>([]);
	const now = useNow();
	const egress = useQuery({
		queryKey: ['egress', name],
		queryFn: ({ signal }) => get<EgressStatus>(path, signal),
		refetchInterval: 5_000,
	});
	const allow = async (rule: string) => {
		setBusy(rule);
		try {
			const status = await send<EgressStatus>('POST', path, { allow: [rule] });
			queries.setQueryData(['egress', name], status);
			queries.invalidateQueries({ queryKey: ['environments'] });
			setHost('');
			say(status.note ?? `${rule} can be reached from the next connection on`);
		} catch (error) {
			complain(error);
		} finally {
			setBusy(null);
		}
	};
	if (egress.error && !egress.data) return <Failure error={egress.error} again={() => egress.refetch()} />;
	if (!egress.data) return <Waiting>Looking at the network's rules</Waiting>;
	const { egress: rules, refused } = egress.data;
	const allowed = Array.isArray(rules) ? rules : [];
	const fixed = source === 'config';
	const ruleOf = (one: (typeof refused)[number]) =>
		one.port === 443 || one.port === 80 ? one.host : `${one.host}:${one.port}`;
	return (
		<div className="flex flex-col gap-6">
			<section aria-label="What can be reached">
				<h2 className="heading mb-1">What can be reached</h2>
				{rules === 'open' && <p className="text-sm">Every public address. Private and local ones are refused.</p>}
				{rules === 'none' && <p className="text-sm">Nothing: sandboxes have no network.</p>}
				{Array.isArray(rules) && allowed.length === 0 && (
					<p className="text-sm">Nothing yet. What sandboxes want to reach is refused, and listed below.</p>
				)}
				{allowed.length > 0 && (
					<ul className="flex flex-wrap gap-1.5">
						{allowed.map((rule) => (
							<li key={rule} className="code rounded-sm border border-line bg-surface px-1.5 py-0.5">
								{rule}
							</li>
						))}
					</ul>
				)}
				{fixed
					? rules !== 'open' && <InFile name={name} rules={allowed} wanted={wanted} />
					: rules !== 'open' && (
							<form
								className="mt-3 flex max-w-md gap-2"
								onSubmit={(event: FormEvent) => {
									event.preventDefault();
									if (host.trim()) allow(host.trim());
								}}
							>
								<input
									className="field code"
									aria-label="A host to allow"
									placeholder="registry.npmjs.org or *.example.com:8443"
									value={host}
									onChange={(event) => setHost(event.target.value)}
								/>
								<Button type="submit" disabled={!host.trim()} busy={busy === host.trim() && busy !== ''}>
									Allow
								</Button>
							</form>
						)}
			</section>
			<section aria-label="What was refused">
				<h2 className="heading mb-1">What was refused</h2>
				{refused.length === 0 && <p className="text-sm text-muted">Nothing was refused lately.</p>}
				{refused.length > 0 && (
					<ul className="divide-y divide-line border-y border-line">
						{refused.map((one) => (
							<li
								key={`${one.host}:${one.port}`}
								className="flex min-h-10 flex-wrap items-center gap-x-4 gap-y-1 py-1 text-sm"
							>
								<span className="code min-w-0 break-all">
									{visible(one.host)}:{one.port}
								</span>
								<span className="min-w-0 flex-1 break-words text-xs text-muted max-md:basis-full">
									{visible(one.reason)}
								</span>
								<span className="tabular text-xs text-muted" title={fullTime(one.last_at)}>
									{one.count}×, last {agoWords(one.last_at, now)}
								</span>
								{fixed ? (
									<Button
										aria-pressed={wanted.includes(ruleOf(one))}
										onClick={() =>
											setWanted(
												wanted.includes(ruleOf(one))
													? wanted.filter((rule) => rule !== ruleOf(one))
													: [...wanted, ruleOf(one)],
											)
										}
									>
										{wanted.includes(ruleOf(one)) ? 'In the lines above' : 'Add to the lines above'}
										<span className="sr-only">, {ruleOf(one)}</span>
									</Button>
								) : (
									<Button busy={busy === ruleOf(one)} onClick={() => allow(ruleOf(one))}>
										Allow<span className="sr-only"> {ruleOf(one)}</span>
									</Button>
								)}
							</li>
						))}
					</ul>
				)}
			</section>
		</div>
	);
}

/** Of an environment that the configuration file has: the lines that are to be there, to be copied. */
function InFile({ name, rules, wanted }: { name: string; rules: string[]; wanted: string[] }) {
	const fresh = wanted.filter((rule) => !rules.includes(rule));
	const lines = linesFor(name, [...rules, ...fresh]);
	return (
		<div className="mt-3 flex max-w-2xl flex-col gap-2 text-sm">
			<p className="text-muted">
				This environment is in the configuration file, which only a person changes. To allow more, put these lines there
				and start the server again{fresh.length === 0 ? '; hosts that were refused can be added to them below' : ''}.
			</p>
			<div className="flex items-start gap-2 rounded-md border border-line bg-sunken">
				<pre className="code min-w-0 flex-1 overflow-x-auto px-3 py-2">{lines}</pre>
				<Button kind="quiet" onClick={() => navigator.clipboard?.writeText(lines).then(() => say('Copied'), complain)}>
					Copy
				</Button>
			</div>
		</div>
	);
}
