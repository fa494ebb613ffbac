// What can be told from the state: its status as the server derives it, and what goes on at this instant.
import type { CheckReport, Status } from '../api/types';
import { changesOf, given } from '../diff/calls';
import { visible } from '../text/hidden';
import { idleOf } from './limits';
import { currentTurn, type ItemView, type SessionState } from './state';

export function statusOf(state: SessionState): Status {
	if (currentTurn(state)) return state.waiting ? 'waiting' : 'working';
	const last = state.turns.findLast((turn) => turn.finishedAt);
	const rests = state.queue.length === 0 || (state.paused !== null && last?.outcome === 'failed');
	if (last?.outcome === 'out_of_budget') return 'out_of_budget';
	if (!rests || !last?.outcome) return 'queued';
	return last.outcome;
}

export interface Activity {
	/** What it does or waits for. */
	text: string;
	/** Since when. */
	since: string;
	/** When it goes on or gives up by itself, and what happens then. */
	until?: { at: number; what: string };
	tone: 'working' | 'needs' | 'off';
}

/** What the turn under way does now. */
export function activityOf(state: SessionState): Activity | null {
	const turn = currentTurn(state);
	if (!turn) {
		if (state.queue.length === 0) return null;
		const since = state.updatedAt ?? '';
		if (state.paused) return { text: `The queue is paused: ${state.paused}`, since, tone: 'needs' };
		return { text: 'Waiting for its turn', since, tone: 'off' };
	}
	const approval = state.waiting ? state.approvals.get(state.waiting) : undefined;
	if (approval) {
		const text = approval.gate === 'question' ? 'Waiting for your answer' : 'Waiting for your decision';
		return { text, since: approval.since, tone: 'needs' };
	}
	if (turn.stoppingAt) {
		return { text: 'Stopping: what runs is ended, what is finished is kept', since: turn.stoppingAt, tone: 'off' };
	}
	const open = lastOpen(state);
	// What the system tries again, other than making the sandbox ready, is no wait of an agent that goes on meanwhile.
	if (state.retry && (state.retry.ofModel || state.sandbox?.state !== 'ready' || !open)) {
		const { reason, attempt, attempts, wakeAt, at, ofModel } = state.retry;
		const text = ofModel
			? `Waiting for the model, try ${attempt} of ${attempts}: ${shortReason(reason)}`
			: `Waiting to try again, try ${attempt} of ${attempts}: ${reason}`;
		return {
			text,
			since: at,
			tone: 'needs',
			...(wakeAt ? { until: { at: Date.parse(wakeAt), what: 'next try in' } } : {}),
		};
	}
	if (open) return doing(open.view, open.since);
	const { sandbox } = state;
	const words: Partial<Record<string, string>> = {
		building: 'Building the image that sandboxes start from',
		creating: 'Starting a sandbox',
		preparing: 'Preparing the workspace',
	};
	const word = sandbox && words[sandbox.state];
	if (sandbox && word) {
		const text = sandbox.detail ? `${word}: ${sandbox.detail}` : word;
		return { text, since: sandbox.since, tone: 'working', ...ends(sandbox.toldAt, sandbox.limitMs) };
	}
	const since = lastAt(state) ?? turn.startedAt;
	const model = state.standIn ?? state.model;
	return { text: `Waiting for ${model}`, since, tone: 'working', ...ends(since, idleOf(model), 'given up in') };
}

/** When something ends that takes no longer than this. */
function ends(since: string, limitMs: number | null | undefined, what = 'times out in'): Pick<Activity, 'until'> {
	return limitMs ? { until: { at: Date.parse(since) + limitMs, what } } : {};
}

/** Of a reason that says the same again in other words, the first ones. */
export const shortReason = (reason: string) => reason.split(': ', 1)[0] ?? reason;

function doing({ item }: ItemView, since: string): Activity {
	switch (item.kind) {
		case 'message':
			return { text: 'Writing', since, tone: 'working' };
		case 'reasoning':
			return { text: 'Thinking', since, tone: 'working' };
		case 'report':
			return { text: `Checking: ${item.check}`, since, tone: 'working', ...ends(since, item.limit_ms) };
		case 'tool_call': {
			const { verb, object } = describeCall(item.tool, item.input);
			return { text: `${verb} ${object}`.trim(), since, tone: 'working', ...ends(since, item.limit_ms) };
		}
		default:
			return { text: 'Working', since, tone: 'working' };
	}
}

/** What goes on, and since when. */
function lastOpen(state: SessionState): { view: ItemView; since: string } | null {
	const turn = state.turns.at(-1);
	if (!turn) return null;
	for (let at = turn.entries.length - 1; at >= 0 && at >= turn.entries.length - 40; at -= 1) {
		const entry = turn.entries[at];
		const view = entry?.kind === 'item' ? state.items.get(entry.item) : undefined;
		if (view && !view.endedAt) return firstRunning(state, view);
	}
	return null;
}

/**
 * Calls of one step are all started at once and run in order: the first that is open is the one that runs, since the one
 * before it ended. What the model thinks and writes comes one after the other, and the last of it is what goes on.
 */
function firstRunning(state: SessionState, last: ItemView): { view: ItemView; since: string } {
	if (last.item.kind !== 'tool_call') return { view: last, since: last.startedAt };
	const turn = state.turns.at(-1);
	let view = last;
	for (let at = (turn?.entries.length ?? 0) - 1; at >= 0; at -= 1) {
		const entry = turn?.entries[at];
		if (entry?.kind !== 'item') continue;
		const before = state.items.get(entry.item);
		if (!before) break;
		if (before.endedAt) return { view, since: later(before.endedAt, view.startedAt) };
		if (before.item.kind !== 'tool_call') break;
		view = before;
	}
	return { view, since: view.startedAt };
}

/** When something happened last: an item ends later than it came, and a question is answered later than it was asked. */
function lastAt(state: SessionState): string | null {
	const ends = (state.turns.at(-1)?.entries.slice(-40) ?? []).map((entry) => {
		const item = entry.kind === 'item' ? state.items.get(entry.item)?.endedAt : null;
		const answer = entry.kind === 'approval' ? state.approvals.get(entry.approval)?.resolved?.at : null;
		return item ?? answer ?? entry.at;
	});
	return ends.length > 0 ? ends.reduce(later) : null;
}

/** Of two times the later one, written as the server writes them. */
const later = (one: string, other: string) => (one.localeCompare(other) > 0 ? one : other);

function field(input: unknown, name: string): unknown {
	return input && typeof input === 'object' ? (input as Record<string, unknown>)[name] : undefined;
}

const text = (value: unknown) => (typeof value === 'string' ? value : '');

/** A call in two words: what is done, and to what. */
export function describeCall(tool: string, input: unknown): { verb: string; object: string; past: string } {
	const words = wordsOf(tool, input);
	return { ...words, object: visible(words.object) };
}

function wordsOf(tool: string, input: unknown): { verb: string; object: string; past: string } {
	const path = given(input, 'path') ?? '';
	switch (tool) {
		case 'shell':
			return {
				verb: 'Running',
				past: 'ran',
				object: firstLine(given(input, 'command') ?? ''),
			};
		case 'read':
			return { verb: 'Reading', past: 'read', object: path };
		case 'list':
			return { verb: 'Listing', past: 'listed', object: path || '.' };
		case 'search':
			return { verb: 'Searching for', past: 'searched for', object: text(field(input, 'pattern')) };
		case 'write':
			return { verb: 'Writing', past: 'wrote', object: path };
		case 'edit':
			return { verb: 'Editing', past: 'edited', object: path };
		case 'apply_patch':
			return { verb: 'Patching', past: 'patched', object: patchedFiles(input) };
		case 'check':
			return { verb: 'Checking', past: 'checked', object: text(field(input, 'name')) };
		case 'plan':
			return { verb: 'Updating', past: 'updated', object: 'the plan' };
		case 'ask':
			return { verb: 'Asking', past: 'asked', object: text(field(input, 'question')) };
		case 'web_fetch':
			return { verb: 'Fetching', past: 'fetched', object: text(field(input, 'url')) };
		case 'process':
			return { verb: 'Looking after', past: 'looked after', object: text(field(input, 'id')) || 'what runs' };
		case 'remember':
			return { verb: 'Remembering', past: 'remembered', object: firstLine(text(field(input, 'text'))) };
		case 'recall':
			return { verb: 'Recalling', past: 'recalled', object: text(field(input, 'query')) };
		case 'skill':
			return { verb: 'Loading the skill', past: 'loaded the skill', object: text(field(input, 'name')) };
		default:
			return { verb: 'Calling', past: 'called', object: tool };
	}
}

/** The files of a patch: the first ones by name. */
function patchedFiles(input: unknown): string {
	const paths = (changesOf('apply_patch', input) ?? []).map((file) => file.path);
	return paths.length > 3 ? `${paths.slice(0, 3).join(', ')} and ${paths.length - 3} more` : paths.join(', ');
}

const firstLine = (value: string) => value.trim().split('\n', 1)[0] ?? '';

/** What a group of calls did, in few words: `read 4 files · ran 2 commands`. */
export function summarise(views: ItemView[]): string {
	const counts = new Map<string, number>();
	for (const { item } of views) {
		const name = item.kind === 'tool_call' ? item.tool : item.kind;
		counts.set(name, (counts.get(name) ?? 0) + 1);
	}
	const say: [string[], (n: number) => string][] = [
		[['read'], (n) => `read ${n} ${n === 1 ? 'file' : 'files'}`],
		[['list'], (n) => `listed ${n} ${n === 1 ? 'folder' : 'folders'}`],
		[['search'], (n) => (n === 1 ? 'searched' : `searched ${n} times`)],
		[['edit', 'write', 'apply_patch'], (n) => `changed files ${n === 1 ? 'once' : `${n} times`}`],
		[['shell', 'process'], (n) => `ran ${n} ${n === 1 ? 'command' : 'commands'}`],
		[['web_fetch'], (n) => `fetched ${n} ${n === 1 ? 'page' : 'pages'}`],
		[['plan'], () => 'updated the plan'],
		[['check'], () => 'ran checks'],
		[['remember', 'recall'], () => 'used the memory'],
		[['skill'], (n) => `loaded ${n} ${n === 1 ? 'skill' : 'skills'}`],
		[['reasoning'], () => 'thought'],
	];
	const parts: string[] = [];
	for (const [names, words] of say) {
		const number = names.reduce((sum, name) => sum + (counts.get(name) ?? 0), 0);
		for (const name of names) counts.delete(name);
		if (number) parts.push(words(number));
	}
	const others = [...counts.values()].reduce((sum, number) => sum + number, 0);
	if (others) parts.push(`called ${others} ${others === 1 ? 'tool' : 'tools'}`);
	return parts.join(' · ');
}

/** The last report of each check, the newest turn's. */
export function lastReports(state: SessionState): { view: ItemView; report: CheckReport }[] {
	const found = new Map<string, { view: ItemView; report: CheckReport }>();
	for (let at = state.turns.length - 1; at >= 0 && found.size === 0; at -= 1) {
		const entries = state.turns[at]?.entries ?? [];
		for (let one = entries.length - 1; one >= 0; one -= 1) {
			const entry = entries[one];
			const view = entry?.kind === 'item' ? state.items.get(entry.item) : undefined;
			if (view?.item.kind === 'report' && !found.has(view.item.check))
				found.set(view.item.check, { view, report: view.item });
		}
	}
	return [...found.values()].reverse();
}

/** How long the turn under way, or the last one, took until now. */
export function turnElapsed(state: SessionState, now: number): number | null {
	const turn = state.turns.at(-1);
	if (!turn?.id) return null;
	return (turn.finishedAt ? Date.parse(turn.finishedAt) : now) - Date.parse(turn.startedAt);
}
