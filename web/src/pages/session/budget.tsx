// What the session may use and what of it is used; its limits can be raised here.
import { useState } from 'react';
import { send } from '../../api/client';
import { useListed } from '../../api/queries';
import type { Budgets, Usage } from '../../api/types';
import { type SessionStore, useLive } from '../../live/store';
import { count, duration, money, plural } from '../../ui/format';
import { Button, Meter } from '../../ui/parts';
import { useSearch } from '../../ui/router';
import { complain, say } from '../../ui/toast';
import { Part } from './inspector';

/** The limits that can be changed here: each that is set, and the session's money in any case. */
function limitsOf(budgets: Budgets): Limit[] {
	const all: Limit[] = [];
	for (const scope of ['session', 'turn'] as const)
		for (const [kind, unit] of units) {
			const value = budgets[scope]?.[kind];
			if (value != null || (scope === 'session' && kind === 'usd'))
				all.push({ scope, kind, unit, value: value ?? null });
		}
	return all;
}

interface Limit {
	scope: 'session' | 'turn';
	kind: 'usd' | 'tokens' | 'seconds' | 'steps';
	unit: string;
	value: number | null;
}

const units = [
	['usd', 'Dollars'],
	['tokens', 'Tokens'],
	['seconds', 'Seconds'],
	['steps', 'Steps'],
] as const;

type Use = Record<Limit['scope'], Record<Limit['kind'], number>>;

/** Tokens of all kinds, as budgets count them. */
const tokensOf = (usage: Usage) =>
	(usage.input ?? 0) +
	(usage.cache_read ?? 0) +
	(usage.cache_write ?? 0) +
	(usage.output ?? 0) +
	(usage.reasoning ?? 0);

/** So much of a kind, in words. */
function amount(kind: Limit['kind'], value: number): string {
	switch (kind) {
		case 'usd':
			return money(value);
		case 'tokens':
			return `${count(value)} tokens`;
		case 'seconds':
			return duration(value * 1000);
		case 'steps':
			return plural(value, 'step');
	}
}

/** What of a limit is used: `$0.12 of $2`, `this turn 4 steps of 40 steps`. */
function Line({ limit: { scope, kind, value }, used, first }: { limit: Limit; used: Use; first?: boolean }) {
	const turn = scope === 'turn' && 'this turn ';
	return (
		<span className="text-xs text-muted">
			{turn}
			<span className={first ? 'text-base font-medium text-text' : 'text-text'}>{amount(kind, used[scope][kind])}</span>{' '}
			of {amount(kind, value ?? 0)}
		</span>
	);
}

const nouns: Record<Limit['kind'], string> = { usd: 'Money', tokens: 'Tokens', seconds: 'Time', steps: 'Steps' };

function Bar({ limit: { scope, kind, value }, used }: { limit: Limit; used: Use }) {
	const label = `${nouns[kind]} used${scope === 'turn' ? ' in this turn' : ''}`;
	return (
		<div className="mt-0.5 mb-1.5">
			<Meter label={label} value={used[scope][kind]} limit={value ?? 0} />
		</div>
	);
}

export function Budget({ store }: { store: SessionStore }) {
	const spend = useLive(store, ({ state }) => state.spend);
	const budgets = useLive(store, ({ state }) => state.budgets);
	const turn = useLive(store, ({ state }) => state.turns.at(-1));
	const [asked, setAsked] = useState(false);
	// An address can ask for it, so that there is a way to it from where the limit is told of.
	const [search, change] = useSearch();
	const open = asked || search.get('budget') === '1';
	const setOpen = (next: boolean) => {
		setAsked(next);
		if (!next) change({ budget: null });
	};
	const steps = useLive(store, ({ state }) => state.turns.reduce((sum, one) => sum + one.steps, 0));
	// Time in which nobody was waited for is counted by the server alone.
	const counted = useListed(store.id)?.used;
	const used: Use = {
		session: {
			usd: spend.cost_usd,
			tokens: tokensOf(spend.usage),
			seconds: counted?.session?.seconds ?? 0,
			steps,
		},
		turn: {
			usd: turn?.spend.cost_usd ?? 0,
			tokens: tokensOf(turn?.spend.usage ?? {}),
			seconds: counted?.turn?.seconds ?? 0,
			steps: turn?.steps ?? 0,
		},
	};
	const limits = limitsOf(budgets).filter((one) => one.value !== null);
	const { usage } = spend;
	const limited = limits.some(({ scope, kind }) => scope === 'session' && kind === 'usd');
	return (
		<Part title="Budget">
			<div className="tabular flex items-baseline gap-2">
				{!limited && (
					<>
						<span className="font-medium">{money(spend.cost_usd)}</span>
						<span className="text-xs text-muted">no limit</span>
					</>
				)}
				<button
					type="button"
					aria-expanded={open}
					className={`target text-xs text-accent underline ${limited ? 'order-last' : ''} ml-auto`}
					onClick={() => setOpen(!open)}
				>
					{open ? 'Close' : 'Change'}
				</button>
				{limited && limits[0] && <Line limit={limits[0]} used={used} first />}
			</div>
			{limited && limits[0] && <Bar limit={limits[0]} used={used} />}
			{open && <ChangeBudget store={store} budgets={budgets} close={() => setOpen(false)} />}
			{limits.slice(limited ? 1 : 0).map((limit) => (
				<div key={`${limit.scope} ${limit.kind}`}>
					<p className="tabular text-xs">
						<Line limit={limit} used={used} />
					</p>
					<Bar limit={limit} used={used} />
				</div>
			))}
			<p className="tabular mt-1 text-xs text-muted">
				{count(tokensOf(usage))} tokens, {count(usage.cache_read ?? 0)} of them cached · step {turn?.steps ?? 0}
				{spend.unpriced_calls ? ` · ${spend.unpriced_calls} calls without a price` : ''}
			</p>
		</Part>
	);
}

const nameOf = ({ scope, kind }: Pick<Limit, 'scope' | 'kind'>) => `${scope} ${kind}`;

function ChangeBudget({ store, budgets, close }: { store: SessionStore; budgets: Budgets; close: () => void }) {
	// What was typed, by limit. The others are as they are now, whoever changes them meanwhile.
	const [drafts, setDrafts] = useState<Record<string, string>>({});
	const limits = limitsOf(budgets);
	// One that somebody took away while it was being typed is still there to be set.
	for (const scope of ['session', 'turn'] as const)
		for (const [kind, unit] of units)
			if (nameOf({ scope, kind }) in drafts && !limits.some((one) => one.scope === scope && one.kind === kind))
				limits.push({ scope, kind, unit, value: null });
	const save = async () => {
		const next = { session: { ...budgets.session }, turn: { ...budgets.turn } };
		for (const { scope, kind } of limits) {
			const draft = drafts[nameOf({ scope, kind })]?.trim();
			if (draft === undefined) continue;
			const value = Number(draft);
			if (draft && !(value > 0)) return complain(new Error('A limit is a number above zero; none is an empty field'));
			next[scope][kind] = draft ? value : null;
		}
		try {
			await send('PATCH', `/sessions/${store.id}`, { budgets: next });
			say('The budget is changed');
			close();
		} catch (error) {
			complain(error);
		}
	};
	return (
		<form
			className="my-2 flex flex-col gap-2"
			onSubmit={(event) => {
				event.preventDefault();
				save();
			}}
		>
			{limits.map(({ scope, kind, unit, value }, at) => {
				const whole = scope === 'session' ? 'for the session' : 'for each turn';
				return (
					<label key={`${scope} ${kind}`} className="flex items-center gap-2 text-xs text-muted">
						<span className="flex-1">
							{unit} {whole}
						</span>
						<input
							className="field tabular w-24!"
							type="number"
							step={kind === 'usd' ? 'any' : 1}
							min="0"
							placeholder="no limit"
							value={drafts[nameOf({ scope, kind })] ?? value ?? ''}
							autoFocus={at === 0}
							data-autofocus={at === 0 || undefined}
							onChange={(event) => setDrafts({ ...drafts, [nameOf({ scope, kind })]: event.target.value })}
						/>
					</label>
				);
			})}
			<Button kind="primary" type="submit" className="self-end">
				Save
			</Button>
		</form>
	);
}
