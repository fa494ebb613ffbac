// Replay equals live: the same events, with and without what was told in between, and with breaks in any place, come to
// the same state. The logs are recorded from a real server (tests/support/record.mjs).
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Event } from '../../src/api/types';
import { activityOf, statusOf } from '../../src/live/derive';
import { fold, foldDelta } from '../../src/live/fold';
import { Rows } from '../../src/live/rows';
import { emptyState, type SessionState } from '../../src/live/state';
import { Trim } from '../../src/live/trim';

const golden = join(import.meta.dirname, '../golden');
// biome-ignore lint/suspicious/noExplicitAny: lines of a log.
type Frame = any;

const logs = readdirSync(golden)
	.filter((name) => name.endsWith('.jsonl'))
	.map((name) => ({
		name: name.replace('.jsonl', ''),
		frames: readFileSync(join(golden, name), 'utf8')
			.trim()
			.split('\n')
			.map((line) => JSON.parse(line) as Frame),
	}));

function take(state: SessionState, frame: Frame) {
	if (typeof frame.seq === 'number') expect(fold(state, structuredClone(frame) as Event)).toBe(true);
	else if (frame.type === 'delta') foldDelta(state, frame.data);
}

/** What counts: everything but how often it changed. */
function essence(state: SessionState) {
	const { version: _, shape: __, turns, items, ...rest } = state;
	return { ...rest, turns: turns.map(({ version: ___, ...turn }) => turn), items: [...items.values()] };
}

describe.each(logs)('$name', ({ frames }) => {
	const durable = frames.filter((frame) => typeof frame.seq === 'number');
	const replayed = emptyState();
	for (const frame of durable) take(replayed, frame);

	test('live ends where replay ends', () => {
		const state = emptyState();
		for (const frame of frames) take(state, frame);
		expect(essence(state)).toEqual(essence(replayed));
	});

	test('a break in any place loses nothing and doubles nothing', () => {
		for (let cut = 0; cut <= frames.length; cut += Math.max(1, Math.floor(frames.length / 23))) {
			const state = emptyState();
			for (const frame of frames.slice(0, cut)) take(state, frame);
			// The server begins after the last event that was seen, or a little before it.
			for (const frame of durable.slice(Math.max(0, state.seq - 3))) take(state, frame);
			expect(essence(state)).toEqual(essence(replayed));
		}
	});

	test('a gap is noticed', () => {
		const state = emptyState();
		take(state, durable[0]);
		expect(fold(state, durable[2])).toBe(false);
		expect(state.seq).toBe(1);
	});

	test('rows made bit by bit are the rows made at once', () => {
		const state = emptyState();
		const bits = new Rows();
		for (const frame of frames) {
			take(state, frame);
			bits.of(state, null);
		}
		expect(bits.of(state, null)).toEqual(new Rows().of(replayed, null));
	});

	test('it looks as it did', () => {
		const rows = new Rows()
			.of(replayed, null)
			.map((row) => (row.type === 'group' ? `group of ${row.items.length}` : row.type));
		expect({
			status: statusOf(replayed),
			activity: activityOf(replayed),
			title: replayed.title,
			plan: replayed.plan,
			queue: replayed.queue.length,
			turns: replayed.turns.map((turn) => [turn.outcome, turn.entries.length, turn.receipt?.steps]),
			kinds: [...replayed.items.values()].map((view) => `${view.item.kind} ${view.item.status}`),
			rows,
		}).toMatchSnapshot();
	});
});

test('of many long outputs the newest are kept whole, and the others say how much was left out', () => {
	const state = emptyState();
	const trim = new Trim(10_000);
	const output = (id: string) => {
		const item = state.items.get(id)?.item;
		return item?.kind === 'tool_call' ? (item.output as { text: string; left_out?: number }) : null;
	};
	for (let at = 0; at < 20; at += 1) {
		const item = {
			id: `i${at}`,
			kind: 'tool_call',
			status: 'completed',
			tool: 'shell',
			input: {},
			output: { text: 'x'.repeat(3000), bytes: 3000 },
		};
		state.items.set(item.id, {
			id: item.id,
			turn: 't',
			seq: at,
			startedAt: '',
			endedAt: '',
			live: null,
			item,
		} as never);
		trim.add(state, item.id);
	}
	expect(output('i19')?.text).toHaveLength(3000);
	expect(output('i17')?.left_out).toBeUndefined();
	expect(output('i0')?.left_out).toBe(2600);
	const kept = [...state.items.keys()].reduce((sum, id) => sum + (output(id)?.text.length ?? 0), 0);
	expect(kept).toBeLessThan(10_000 + 20 * 500);
});

test('a text that a restart broke off before the log had any of it is no row', () => {
	const state = emptyState();
	const put = (type: string, data: object) =>
		take(state, {
			v: 1,
			session: 's',
			seq: state.seq + 1,
			at: '2026-11-18T10:00:00Z',
			actor: { kind: 'agent', id: 'm' },
			type,
			data,
		});
	put('turn.started', { turn: 't', prompt: 'p' });
	for (const [id, text] of [
		['a', ''],
		['b', 'Some of it'],
	])
		put('item.completed', { turn: 't', item: { id, kind: 'reasoning', status: 'interrupted', text } });
	expect(new Rows().of(state, null).map((row) => row.key)).toEqual(['b']);
});

test('no event that the server is described to send is unknown here', () => {
	const description = JSON.parse(readFileSync(join(import.meta.dirname, '../../openapi.json'), 'utf8'));
	// biome-ignore lint/suspicious/noExplicitAny: a part of a description.
	const typeOf = (kind: any): string => {
		const { properties } = kind.allOf?.find((part: typeof kind) => part.properties?.type) ?? kind;
		return properties.type.const ?? properties.type.enum[0];
	};
	const types: string[] = description.components.schemas.EventBody.oneOf.map(typeOf);
	expect(types.length).toBeGreaterThan(30);
	const unknown = types.filter((type) => {
		const state = emptyState();
		try {
			fold(state, {
				v: 1,
				session: 's',
				seq: 1,
				at: '2026-11-18T10:00:00Z',
				actor: { kind: 'system', id: 's' },
				type,
				data: {},
			} as never);
		} catch {
			// It is known, and wants to have what it is about.
		}
		return state.turns[0]?.entries.some((entry) => entry.kind === 'note' && entry.note.kind === 'other') ?? false;
	});
	expect(unknown).toEqual([]);
});
