// One event at a time into the state: the same code for replay and for what happens now. Objects that change are
// replaced, so that what is drawn can tell by identity; the containers stay.
import type { Channel, Event, Item, Spend, Usage } from '../api/types';
import {
	currentTurn,
	type Entry,
	emptyTurn,
	type ItemView,
	type Note,
	noSpend,
	type SessionState,
	type Turn,
} from './state';
import { appended, type Delta } from './text';

/** Folds an event in. False if it does not follow what is there: something before it is missing. */
export function fold(state: SessionState, event: Event): boolean {
	if (event.seq <= state.seq) return true;
	if (event.seq !== state.seq + 1) return false;
	state.seq = event.seq;
	state.updatedAt = event.at;
	state.version += 1;
	apply(state, event);
	return true;
}

/** A piece of an item that is under way. */
export function foldDelta(state: SessionState, delta: Delta) {
	const view = state.items.get(delta.item);
	if (!view || view.endedAt) return;
	const channel: Channel = delta.channel;
	const live = { ...view.live, [channel]: appended(view.live?.[channel], delta) };
	state.items.set(view.id, { ...view, live });
	state.version += 1;
}

function apply(state: SessionState, event: Event) {
	const by = event.actor.id;
	switch (event.type) {
		case 'session.created': {
			const { title, environment, recipe, model, budgets, forked_from } = event.data;
			state.createdAt = event.at;
			state.title = title;
			state.environment = environment;
			state.recipe = recipe;
			state.model = model;
			if (budgets) state.budgets = budgets;
			state.forkedFrom = forked_from?.session ?? null;
			return;
		}
		case 'session.renamed':
			state.title = event.data.title;
			return;
		case 'session.restored':
			note(state, event, { kind: 'restored' });
			return;
		case 'model.changed': {
			const { model, from, reason, turn } = event.data;
			if (turn) state.standIn = model;
			else state.model = model;
			note(state, event, { kind: 'model', model, from, reason: reason ?? null, turn: turn ?? null, by });
			return;
		}
		case 'budget.changed':
			state.budgets = event.data.budgets;
			note(state, event, { kind: 'budgets', budgets: event.data.budgets, by });
			return;
		case 'budget.warned': {
			const { scope, kind, used, limit } = event.data;
			note(state, event, { kind: 'budget', scope, of: kind, used, limit });
			return;
		}
		case 'prompt.queued': {
			const { prompt, text, now, images } = event.data;
			const waiting = { id: prompt, text, author: by, ...(images ? { images } : {}) };
			state.queue = now ? [waiting, ...state.queue] : [...state.queue, waiting];
			state.prompts.set(prompt, { text: firstWords(text), author: by, at: event.at });
			return;
		}
		case 'prompt.edited': {
			const { prompt, text } = event.data;
			state.queue = state.queue.map((one) => {
				if (one.id !== prompt) return one;
				const editors = one.editors ?? [];
				const more = one.author === by || editors.includes(by) ? editors : [...editors, by];
				return { ...one, text, ...(more.length ? { editors: more } : {}) };
			});
			const known = state.prompts.get(prompt);
			if (known) state.prompts.set(prompt, { ...known, text: firstWords(text) });
			return;
		}
		case 'prompt.removed':
			state.queue = state.queue.filter((one) => one.id !== event.data.prompt);
			return;
		case 'prompt.moved': {
			const { prompt, before } = event.data;
			const moved = state.queue.find((one) => one.id === prompt);
			if (!moved) return;
			const rest = state.queue.filter((one) => one.id !== prompt);
			const at = before ? rest.findIndex((one) => one.id === before) : -1;
			state.queue = at < 0 ? [...rest, moved] : [...rest.slice(0, at), moved, ...rest.slice(at)];
			return;
		}
		case 'queue.paused':
			state.paused = event.data.reason;
			note(state, event, { kind: 'paused', reason: event.data.reason });
			return;
		case 'queue.resumed':
			state.paused = null;
			return;
		case 'turn.started': {
			const { turn, prompt } = event.data;
			const waiting = state.queue.find((one) => one.id === prompt);
			state.queue = state.queue.filter((one) => one.id !== prompt);
			state.turns.push({
				...emptyTurn(turn, event.at),
				prompt,
				author: waiting?.author ?? state.prompts.get(prompt)?.author ?? null,
			});
			state.standIn = null;
			state.retry = null;
			return;
		}
		case 'turn.stopping':
			changeTurn(state, event.data.turn, (turn) => ({ ...turn, stoppingAt: event.at }));
			note(state, event, { kind: 'stopping', by });
			return;
		case 'turn.finished': {
			const { turn: id, outcome, reason, receipt } = event.data;
			changeTurn(state, id, (turn) => ({
				...turn,
				finishedAt: event.at,
				outcome,
				reason: reason ?? null,
				receipt,
			}));
			state.standIn = null;
			state.retry = null;
			state.waiting = null;
			add(state, event, { key: `f${event.seq}`, seq: event.seq, at: event.at, kind: 'finished' }, id);
			return;
		}
		case 'item.started':
			state.retry = null;
			putItem(state, event, event.data.turn, event.data.item, null);
			return;
		case 'item.completed':
			state.retry = null;
			putItem(state, event, event.data.turn, event.data.item, event.at);
			return;
		case 'approval.requested': {
			const { approval, turn, question, gate, call, diff } = event.data;
			state.approvals.set(approval, {
				id: approval,
				turn,
				question,
				gate: gate ?? 'delivery',
				call: call ?? null,
				diff: diff ?? null,
				since: event.at,
				resolved: null,
			});
			state.waiting = approval;
			add(state, event, { key: approval, seq: event.seq, at: event.at, kind: 'approval', approval }, turn);
			return;
		}
		case 'approval.resolved': {
			const { approval, approved, comment, all, input } = event.data;
			const view = state.approvals.get(approval);
			if (view) {
				const changed = input !== undefined && input !== null;
				const resolved = { approved, by, at: event.at, comment: comment ?? null, all: all ?? false, changed };
				// What was asked about is told by the call itself from here on.
				state.approvals.set(approval, { ...view, call: null, diff: null, resolved });
				touch(state, view.turn);
			}
			if (state.waiting === approval) state.waiting = null;
			return;
		}
		case 'plan.updated':
			state.plan = event.data.items;
			return;
		case 'usage.recorded': {
			const { turn: id, usage, cost_usd, step } = event.data;
			state.spend = spent(state.spend, usage, cost_usd ?? null);
			if (step > 0) state.context = usage;
			changeTurn(state, id, (turn) => ({
				...turn,
				spend: spent(turn.spend, usage, cost_usd ?? null),
				steps: Math.max(turn.steps, step),
			}));
			state.retry = null;
			return;
		}
		case 'context.compacted':
			note(state, event, { kind: 'compacted', compaction: event.data });
			return;
		case 'retry.scheduled': {
			const { attempt, attempts, reason, delay_ms, wake_at } = event.data;
			const retry = { kind: 'retry', attempt, attempts, reason, delayMs: delay_ms, wakeAt: wake_at ?? null } as const;
			// A title is looked for beside the work, which does not wait for it.
			const ofModel = event.actor.kind === 'agent';
			if (ofModel || !reason.startsWith('title: ')) state.retry = { ...retry, at: event.at, ofModel };
			note(state, event, retry);
			return;
		}
		case 'sandbox.changed': {
			const { sandbox, state: how, detail, duration_ms, limit_ms } = event.data;
			const known = state.sandbox;
			// A set-up step that is tried again is told by what the sandbox does then; the model may be waited for meanwhile.
			if (!state.retry?.ofModel) state.retry = null;
			// One that waits in the same state for something else has been in it since before.
			const since = known?.id === sandbox && known.state === how && how === 'building' ? known.since : event.at;
			const told = { detail: detail ?? null, toldAt: event.at, limitMs: limit_ms ?? null };
			state.sandbox = { id: sandbox, state: how, since, ...told };
			if (how === 'lost' || how === 'building') {
				note(state, event, { kind: 'sandbox', state: how, detail: detail ?? null, durationMs: duration_ms ?? null });
			}
			return;
		}
		case 'snapshot.taken':
			state.snapshots += 1;
			return;
		case 'egress.decided': {
			const { host, port, allowed, rule, connections, sent, received } = event.data;
			const key = `${host}:${port}:${allowed}`;
			const known = state.egress.get(key);
			state.egress.set(key, {
				host,
				port,
				allowed,
				rule,
				connections: (known?.connections ?? 0) + connections,
				sent: (known?.sent ?? 0) + (sent ?? 0),
				received: (known?.received ?? 0) + (received ?? 0),
				lastAt: event.at,
			});
			return;
		}
		case 'limit.exceeded':
			note(state, event, { kind: 'limit', limit: event.data.limit, message: event.data.message });
			return;
		case 'service.changed': {
			const { service, state: how, detail } = event.data;
			note(state, event, { kind: 'service', service, up: how === 'up', detail: detail ?? null });
			return;
		}
		case 'delivery.updated':
			if (!state.retry?.ofModel) state.retry = null;
			state.delivery = event.data;
			state.deliveries = new Map(state.deliveries).set(event.data.repository ?? '', event.data);
			note(state, event, { kind: 'delivery', delivery: event.data });
			return;
		case 'memory.changed':
			note(state, event, { kind: 'memory', text: event.data.text });
			return;
		case 'error.raised': {
			const { code, message, hint } = event.data;
			note(state, event, { kind: 'error', code, message, hint: hint ?? null });
			return;
		}
		case 'session.archived':
		case 'session.unarchived':
			note(state, event, { kind: 'archived', away: event.type === 'session.archived', by });
			return;
		case 'checks.known':
		case 'checks.passed':
		case 'mistake.made':
		case 'notification.updated':
		case 'reply.updated':
		case 'policy.changed':
		case 'skills.pinned':
		case 'tools.listed':
		case 'work.judged':
			return;
		default:
			// Everything that our own description has is above, or this is no program. A newer server may tell of things that this
			// page does not know; it says so rather than nothing.
			event satisfies never;
			note(state, event, { kind: 'other', type: (event as { type: string }).type });
	}
}

/** The beginning of a prompt, by which its turn is named; a text of its own, which does not keep all of a long one. */
const firstWords = (text: string) =>
	text.length <= NAMED ? text : (JSON.parse(JSON.stringify(text.slice(0, NAMED))) as string);
const NAMED = 200;

function putItem(state: SessionState, event: Event, turn: string, item: Item, endedAt: string | null) {
	const known = state.items.get(item.id);
	const view: ItemView = {
		id: item.id,
		turn,
		seq: event.seq,
		// A call that waited for a person begins when it may run, which is told by its coming a second time.
		startedAt: endedAt ? (known?.startedAt ?? event.at) : event.at,
		endedAt,
		item,
		live: endedAt ? null : (known?.live ?? null),
	};
	state.items.set(item.id, view);
	if (known) touch(state, turn);
	else add(state, event, { key: item.id, seq: event.seq, at: event.at, kind: 'item', item: item.id }, turn);
}

function note(state: SessionState, event: Event, what: Note) {
	// Deliveries and waits of one turn are told by their last word.
	const turn = state.turns.at(-1);
	const last = turn?.entries.at(-1);
	const entry: Entry = { key: `n${event.seq}`, seq: event.seq, at: event.at, kind: 'note', note: what };
	if (
		turn &&
		last?.kind === 'note' &&
		last.note.kind === what.kind &&
		(what.kind === 'retry' || what.kind === 'delivery')
	) {
		state.shape += 1;
		const entries = [...turn.entries.slice(0, -1), { ...entry, key: last.key }];
		state.turns[state.turns.length - 1] = { ...turn, entries, version: turn.version + 1 };
		return;
	}
	add(state, event, entry, turn?.id ?? '');
}

function add(state: SessionState, event: Event, entry: Entry, id: string) {
	let at = findTurn(state, id);
	if (at < 0) {
		state.turns.push(emptyTurn('', event.at));
		at = state.turns.length - 1;
	}
	const turn = state.turns[at];
	if (!turn) return;
	state.shape += 1;
	// Pushed, not copied: a turn can have thousands. Its version tells that it grew.
	turn.entries.push(entry);
	state.turns[at] = { ...turn, version: turn.version + 1 };
}

function touch(state: SessionState, id: string) {
	changeTurn(state, id, (turn) => ({ ...turn, version: turn.version + 1 }));
}

function changeTurn(state: SessionState, id: string, change: (turn: Turn) => Turn) {
	state.shape += 1;
	const at = findTurn(state, id);
	const turn = state.turns[at];
	if (turn) state.turns[at] = change(turn);
}

function findTurn(state: SessionState, id: string): number {
	// Nearly always the last one.
	for (let at = state.turns.length - 1; at >= 0; at -= 1) if (state.turns[at]?.id === id) return at;
	return currentTurn(state) ? state.turns.length - 1 : -1;
}

function spent(spend: Spend, usage: Usage, cost: number | null): Spend {
	const before = spend.usage;
	const sum = (name: keyof Usage) => (before[name] ?? 0) + (usage[name] ?? 0);
	return {
		usage: {
			input: sum('input'),
			cache_read: sum('cache_read'),
			cache_write: sum('cache_write'),
			output: sum('output'),
			reasoning: sum('reasoning'),
		},
		cost_usd: spend.cost_usd + (cost ?? 0),
		calls: spend.calls + 1,
		unpriced_calls: (spend.unpriced_calls ?? 0) + (cost === null ? 1 : 0),
	};
}

export { noSpend };
