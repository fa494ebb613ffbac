// What a session is, as far as its events tell. Only `fold` changes it.
import type {
	AskedCall,
	Budgets,
	Channel,
	Compaction,
	Delivery,
	DiffSummary,
	EgressDecision,
	Environment,
	Gate,
	Item,
	Outcome,
	PlanItem,
	QueuedPrompt,
	Receipt,
	SandboxState,
	Spend,
	Usage,
} from '../api/types';

/** Text that is still being written. */
export interface LiveText {
	/** What is kept of it: the end, where it is long. */
	text: string;
	/** Bytes of it that came so far, those that are no longer kept included. */
	bytes: number;
	/** Characters of its beginning that are no longer kept. */
	dropped: number;
	/** Whether some of it was missed on the way. */
	gap: boolean;
}

export interface ItemView {
	id: string;
	turn: string;
	/** Number of the event that has all of it, to ask for what was left out here. */
	seq: number;
	startedAt: string;
	endedAt: string | null;
	item: Item;
	live: Partial<Record<Channel, LiveText>> | null;
}

export interface ApprovalView {
	id: string;
	turn: string;
	question: string;
	gate: Gate;
	call: AskedCall | null;
	diff: DiffSummary | null;
	since: string;
	resolved: {
		approved: boolean;
		by: string;
		at: string;
		comment: string | null;
		all: boolean;
		changed: boolean;
	} | null;
}

/** Something that is told in the conversation and is no item. */
export type Note =
	| { kind: 'retry'; attempt: number; attempts: number; reason: string; delayMs: number; wakeAt: string | null }
	| { kind: 'model'; model: string; from: string; reason: string | null; turn: string | null; by: string }
	| { kind: 'error'; code: string; message: string; hint: string | null }
	| { kind: 'limit'; limit: string; message: string }
	| { kind: 'service'; service: string; up: boolean; detail: string | null }
	| { kind: 'budget'; scope: string; of: string; used: number; limit: number }
	| { kind: 'budgets'; budgets: Budgets; by: string }
	| { kind: 'compacted'; compaction: Compaction }
	| { kind: 'delivery'; delivery: Delivery }
	| { kind: 'sandbox'; state: SandboxState; detail: string | null; durationMs: number | null }
	| { kind: 'memory'; text: string }
	| { kind: 'restored' }
	| { kind: 'paused'; reason: string }
	| { kind: 'stopping'; by: string }
	| { kind: 'archived'; away: boolean; by: string }
	| { kind: 'other'; type: string };

export type Entry =
	| { key: string; seq: number; at: string; kind: 'item'; item: string }
	| { key: string; seq: number; at: string; kind: 'approval'; approval: string }
	| { key: string; seq: number; at: string; kind: 'note'; note: Note }
	| { key: string; seq: number; at: string; kind: 'finished' };

export interface Turn {
	/** Empty for what came before the first turn. */
	id: string;
	prompt: string | null;
	author: string | null;
	startedAt: string;
	stoppingAt: string | null;
	finishedAt: string | null;
	outcome: Outcome | null;
	reason: string | null;
	receipt: Receipt | null;
	entries: Entry[];
	spend: Spend;
	steps: number;
	/** Grows whenever its rows may look different. */
	version: number;
}

export interface EgressHost {
	host: string;
	port: number;
	allowed: boolean;
	rule: string;
	connections: number;
	sent: number;
	received: number;
	lastAt: string;
}

export interface SessionState {
	seq: number;
	createdAt: string | null;
	updatedAt: string | null;
	title: string;
	environment: string;
	recipe: Environment | null;
	/** The model that the session has, and the one that takes its place for the rest of a turn. */
	model: string;
	standIn: string | null;
	budgets: Budgets;
	queue: QueuedPrompt[];
	paused: string | null;
	turns: Turn[];
	items: Map<string, ItemView>;
	approvals: Map<string, ApprovalView>;
	/** The approval that the turn waits for. */
	waiting: string | null;
	plan: PlanItem[];
	spend: Spend;
	/** Of the last step: what the model read and wrote. */
	context: Usage | null;
	/** What is waited for before it is tried again: a call of the model, or something of the system, such as a set-up step. */
	retry: (Extract<Note, { kind: 'retry' }> & { at: string; ofModel: boolean }) | null;
	sandbox: {
		id: string;
		state: SandboxState;
		detail: string | null;
		/** Since when it is in this state and does the same. */
		since: string;
		/** When that was last told of, and how long from then it may still take. */
		toldAt: string;
		limitMs: number | null;
	} | null;
	egress: Map<string, EgressHost>;
	delivery: Delivery | null;
	/** The last delivery of each repository, by where it lies; of the only one under no name. */
	deliveries: Map<string, Delivery>;
	snapshots: number;
	forkedFrom: string | null;
	/** Authors of prompts and how they begin, by prompt. */
	prompts: Map<string, { text: string; author: string; at: string }>;
	people: string[];
	typing: Map<string, number>;
	/** Whether everything that is in the log was seen. */
	live: boolean;
	/** Grows whenever the rows of the conversation may be others. */
	shape: number;
	/** Grows with every change. */
	version: number;
}

export const noSpend: Spend = {
	usage: { input: 0, cache_read: 0, cache_write: 0, output: 0, reasoning: 0 },
	cost_usd: 0,
	calls: 0,
	unpriced_calls: 0,
};

export function emptyTurn(id: string, at: string): Turn {
	return {
		id,
		prompt: null,
		author: null,
		startedAt: at,
		stoppingAt: null,
		finishedAt: null,
		outcome: null,
		reason: null,
		receipt: null,
		entries: [],
		spend: noSpend,
		steps: 0,
		version: 0,
	};
}

/** What an older server leaves out is no limit. */
const none = { usd: null, tokens: null, seconds: null, steps: null };

export function emptyState(): SessionState {
	return {
		seq: 0,
		createdAt: null,
		updatedAt: null,
		title: '',
		environment: '',
		recipe: null,
		model: '',
		standIn: null,
		budgets: { turn: none, session: none },
		queue: [],
		paused: null,
		turns: [],
		items: new Map(),
		approvals: new Map(),
		waiting: null,
		plan: [],
		spend: noSpend,
		context: null,
		retry: null,
		sandbox: null,
		egress: new Map(),
		delivery: null,
		deliveries: new Map(),
		snapshots: 0,
		forkedFrom: null,
		prompts: new Map(),
		people: [],
		typing: new Map(),
		live: false,
		shape: 0,
		version: 0,
	};
}

export function currentTurn(state: SessionState): Turn | null {
	const last = state.turns.at(-1);
	return last?.id && !last.finishedAt ? last : null;
}

export type { EgressDecision };
