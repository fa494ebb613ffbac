// What the session may use and what of it is used; its limits can be raised here.
import { useState } from 'react';
import { send } from '../../api/client';
import type { Budgets } from '../../api/types';
import { type SessionStore, useLive } from '../../live/store';
import { count, money } from '../../ui/format';
import { Button, Meter } from '../../ui/parts';
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

export function Budget({ store }: { store: SessionStore }) {
	const spend = useLive(store, ({ state }) => state.spend);
	const budgets = useLive(store, ({ state }) => state.budgets);
	const turn = useLive(store, ({ state }) => state.turns.at(-1));
	const [open, setOpen] = useState(false);
	const limit = budgets.session.usd;
	const perTurn = budgets.turn.usd;
	const { usage } = spend;
	const tokens =
		(usage.input ?? 0) +
		(usage.cache_read ?? 0) +
		(usage.cache_write ?? 0) +
		(usage.output ?? 0) +
		(usage.reasoning ?? 0);
	return (
		<Part title="Budget">
			<div className="tabular flex items-baseline gap-2">
				<span className="font-medium">{money(spend.cost_usd)}</span>
				<span className="text-xs text-muted">{limit ? `of ${money(limit)}` : 'no limit'}</span>
				<button
					type="button"
					aria-expanded={open}
					className="target ml-auto text-xs text-accent underline"
					onClick={() => setOpen(!open)}
				>
					{open ? 'Close' : 'Change'}
				</button>
			</div>
			{limit ? (
				<div className="my-1.5">
					<Meter label="Money used" value={spend.cost_usd} limit={limit} />
				</div>
			) : null}
			{open && (
				<ChangeBudget key={JSON.stringify(budgets)} store={store} budgets={budgets} close={() => setOpen(false)} />
			)}
			<p className="tabular text-xs text-muted">
				{count(tokens)} tokens, {count(usage.cache_read ?? 0)} of them cached · step {turn?.steps ?? 0}
				{budgets.turn.steps ? ` of ${budgets.turn.steps}` : ''}
				{perTurn ? ` · this turn ${money(turn?.spend.cost_usd ?? 0)} of ${money(perTurn)}` : ''}
				{spend.unpriced_calls ? ` · ${spend.unpriced_calls} calls without a price` : ''}
			</p>
		</Part>
	);
}

function ChangeBudget({ store, budgets, close }: { store: SessionStore; budgets: Budgets; close: () => void }) {
	const limits = limitsOf(budgets);
	const [drafts, setDrafts] = useState(() => limits.map(({ value }) => (value === null ? '' : String(value))));
	const save = async () => {
		const next = { session: { ...budgets.session }, turn: { ...budgets.turn } };
		for (const [at, { scope, kind }] of limits.entries()) {
			const draft = drafts[at]?.trim() ?? '';
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
			{limits.map(({ scope, kind, unit }, at) => {
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
							value={drafts[at]}
							autoFocus={at === 0}
							onChange={(event) => setDrafts(drafts.map((one, place) => (place === at ? event.target.value : one)))}
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
