// What is waited for: since when, and until when, as the server says it.
import { expect, test } from 'vitest';
import type { Event } from '../../src/api/types';
import { activityOf } from '../../src/live/derive';
import { fold } from '../../src/live/fold';
import { knowModels } from '../../src/live/limits';
import { emptyState } from '../../src/live/state';

const at = (seconds: number) => new Date(Date.parse('2026-11-18T10:00:00Z') + seconds * 1000).toISOString();

/** A session in which these things happened, each at its second. */
function after(...events: [number, string, object][]) {
	const state = emptyState();
	const begin: [number, string, object][] = [
		[0, 'session.created', { title: 't', environment: 'e', recipe: {}, model: 'main' }],
		[0, 'prompt.queued', { prompt: 'p', text: 'x' }],
		[0, 'turn.started', { turn: 't', prompt: 'p' }],
	];
	for (const [index, [seconds, type, data]] of [...begin, ...events].entries()) {
		const event = { v: 1, session: 's', seq: index + 1, at: at(seconds), actor: { kind: 'user', id: 'a' }, type, data };
		expect(fold(state, event as unknown as Event)).toBe(true);
	}
	const activity = activityOf(state);
	return activity && { ...activity, until: activity.until && (activity.until.at - Date.parse(at(0))) / 1000 };
}

const call = (id: string, more: object) => ({
	turn: 't',
	item: { id, kind: 'tool_call', status: 'in_progress', call_id: id, tool: 'shell', input: { command: id }, ...more },
});

test('a command is ended when the server ends it, whatever the model asked for', () => {
	const now = after([1, 'item.started', call('a', { input: { command: 'a', timeout_ms: 300_000 }, limit_ms: 30_000 })]);
	expect(now).toMatchObject({ text: 'Running a', since: at(1), until: 31 });
	// Without a word of the server nothing is made up.
	expect(after([1, 'item.started', call('a', {})])?.until).toBeUndefined();
});

test('of calls that come together the second begins when the first has ended', () => {
	const now = after(
		[1, 'item.started', call('a', { limit_ms: 30_000 })],
		[1, 'item.started', call('b', { limit_ms: 30_000 })],
		[20, 'item.completed', call('a', { status: 'completed' })],
	);
	expect(now).toMatchObject({ text: 'Running b', since: at(20), until: 50 });
});

test('what a person took to decide is no time of the call', () => {
	const now = after(
		[1, 'item.started', call('a', {})],
		[2, 'approval.requested', { approval: 'r', turn: 't', question: 'q', gate: 'call' }],
		[600, 'approval.resolved', { approval: 'r', approved: true }],
		[601, 'item.started', call('a', { limit_ms: 30_000 })],
	);
	expect(now).toMatchObject({ since: at(601), until: 631 });
});

test('checks, images and set-up steps have their limits, and a silent model too', () => {
	const report = { id: 'r', kind: 'report', status: 'in_progress', check: 'test', command: 'x', limit_ms: 600_000 };
	expect(after([5, 'item.started', { turn: 't', item: report }])).toMatchObject({ text: 'Checking: test', until: 605 });
	const sandbox = (state: string, detail: string, limit_ms: number) => ({ sandbox: 'x', state, detail, limit_ms });
	expect(
		after(
			[1, 'sandbox.changed', sandbox('building', 'the image of shop, step 3 of 3: npm ci', 1_800_000)],
			[11, 'sandbox.changed', sandbox('building', 'the image of shop, step 3 of 3: npm ci (for 10 s)', 1_790_000)],
		),
	).toMatchObject({ since: at(1), until: 1801 });
	expect(after([3, 'sandbox.changed', sandbox('preparing', 'the set-up step npm ci', 77_000)])?.until).toBe(80);
	expect(after()?.until).toBeUndefined();
	knowModels([{ name: 'main', idle_ms: 300_000 } as never]);
	expect(after()).toMatchObject({ text: 'Waiting for main', until: 300 });
	const ran = after([1, 'item.started', call('a', {})], [100, 'item.completed', call('a', { status: 'completed' })]);
	expect(ran).toMatchObject({ text: 'Waiting for main', since: at(100), until: 400 });
});
