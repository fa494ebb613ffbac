// What is waited for: since when, and until when, as the server says it.
import { expect, test } from 'vitest';
import type { Event } from '../../src/api/types';
import { activityOf } from '../../src/live/derive';
import { fold } from '../../src/live/fold';
import { knowModels } from '../../src/live/limits';
import { emptyState } from '../../src/live/state';

const at = (seconds: number) => new Date(Date.parse('2026-11-18T10:00:00Z') + seconds * 1000).toISOString();

type Told = [seconds: number, type: string, data: object, by?: 'user' | 'agent' | 'system'];

/** A session in which these things happened, each at its second. */
function after(...events: Told[]) {
	const state = emptyState();
	const begin: Told[] = [
		[0, 'session.created', { title: 't', environment: 'e', recipe: {}, model: 'main' }],
		[0, 'prompt.queued', { prompt: 'p', text: 'x' }],
		[0, 'turn.started', { turn: 't', prompt: 'p' }],
	];
	for (const [index, [seconds, type, data, kind = 'user']] of [...begin, ...events].entries()) {
		const event = { v: 1, session: 's', seq: index + 1, at: at(seconds), actor: { kind, id: 'a' }, type, data };
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

test('what is tried again is told as what it is, and until it is', () => {
	const retry = (reason: string) => ({ turn: 't', attempt: 2, attempts: 3, reason, delay_ms: 5_000, wake_at: at(15) });
	const step = (state: string) => ({ sandbox: 'x', state, detail: 'the set-up step npm ci' });
	const failed = 'the set-up step `npm ci` exited with 3';
	const model = 'the model server has too much to do: Overloaded';
	const setUp: Told[] = [
		[1, 'sandbox.changed', step('preparing'), 'system'],
		[10, 'retry.scheduled', retry(failed), 'system'],
	];
	expect(after(...setUp)).toMatchObject({
		text: `Waiting to try again, try 2 of 3: ${failed}`,
		since: at(10),
		until: 15,
	});
	const again: Told = [15, 'sandbox.changed', step('preparing'), 'system'];
	expect(after(...setUp, again)?.text).toBe('Preparing the workspace: the set-up step npm ci');
	// The model is asked while the sandbox is made ready, and neither ends the other's wait.
	const busy: Told = [16, 'retry.scheduled', retry(model), 'agent'];
	const waits = 'Waiting for the model, try 2 of 3: the model server has too much to do';
	expect(after(...setUp, again, busy)?.text).toBe(waits);
	expect(after(...setUp, again, busy, [17, 'sandbox.changed', step('syncing'), 'system'])?.text).toBe(waits);
	// A delivery that is tried again is waited for by a turn that does nothing else.
	const ready: Told = [18, 'sandbox.changed', step('ready'), 'system'];
	const push: Told = [20, 'retry.scheduled', retry('the forge is busy: 503'), 'system'];
	expect(after(ready, push)?.text).toBe('Waiting to try again, try 2 of 3: the forge is busy: 503');
	expect(after(ready, [19, 'item.started', call('a', {})], push)?.text).toBe('Running a');
	// A title is looked for beside the work.
	const title = after(again, [16, 'retry.scheduled', retry(`title: ${model}`), 'system']);
	expect(title?.text).toBe('Preparing the workspace: the set-up step npm ci');
});

test('while a model that thought writes its answer, it writes', () => {
	const item = (id: string, kind: string) => ({ turn: 't', item: { id, kind, status: 'in_progress', text: '' } });
	const thinks: Told = [1, 'item.started', item('r', 'reasoning')];
	expect(after(thinks)).toMatchObject({ text: 'Thinking', since: at(1) });
	const writes: Told = [5, 'item.started', item('m', 'message')];
	expect(after(thinks, writes)).toMatchObject({ text: 'Writing', since: at(5) });
	const calls: Told[] = [
		[9, 'item.started', call('a', {})],
		[9, 'item.started', call('b', {})],
	];
	expect(after(thinks, writes, ...calls)).toMatchObject({ text: 'Running a', since: at(9) });
});
