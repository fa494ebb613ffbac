// One small store for each session that is open: its state, who wants to know of changes, and what was sent and is not
// in the log yet.
import { useEffect, useRef, useSyncExternalStore } from 'react';
import type { Problem } from '../api/types';
import type { Frame } from './connection';
import { fold, foldDelta } from './fold';
import { live } from './link';
import { outbox, type PendingPrompt } from './outbox';
import { emptyState, type SessionState } from './state';
import { Trim } from './trim';

export interface CaughtUp {
	events: number;
	/** The last event that was here before. */
	from: number;
	at: number;
}

/** How often is shown how far the reading of a log has come. */
const REPLAY_MS = 400;

export class SessionStore {
	readonly id: string;
	state: SessionState = emptyState();
	problem: Problem | null = null;
	/** Whether the log was read to its end once. Before that its middle would be shown as if it were now. */
	whole = false;
	/** Set when the connection came back and brought what was missed. */
	caughtUp: CaughtUp | null = null;
	version = 0;
	private readonly listeners = new Set<() => void>();
	private users = 0;
	private trim = new Trim();
	private drawn = 0;
	private lineage: string | null = null;
	private away: number | null = null;

	constructor(id: string) {
		this.id = id;
	}

	open() {
		this.users += 1;
		if (this.users > 1) return;
		live.follow(this.id, this.state.seq, this.lineage, this.follower());
	}

	get used() {
		return this.users > 0;
	}

	close() {
		this.users -= 1;
		if (this.users > 0) return;
		live.unfollow(this.id);
		this.state.live = false;
	}

	/** The connection broke: what comes next is what was missed. */
	lost() {
		if (this.state.live && this.away === null) this.away = this.state.seq;
	}

	take(frames: Frame[]) {
		const { state } = this;
		this.problem = null;
		for (const frame of frames) {
			if (typeof frame.seq === 'number') {
				if (!fold(state, frame)) {
					// Cannot happen while the server keeps its word; asking again is what helps if it does.
					live.follow(this.id, state.seq, this.lineage, this.follower());
					break;
				}
				if (frame.type === 'item.completed') this.trim.add(state, frame.data.item.id);
				if (frame.type === 'prompt.queued') outbox.logged(this.id, frame.data.prompt);
			} else this.takeEphemeral(frame);
		}
		// While the log is read nobody can read along; drawing every batch would be most of the work.
		if (state.live || Date.now() - this.drawn > REPLAY_MS) {
			this.drawn = Date.now();
			this.changed();
		}
	}

	private follower() {
		return {
			frames: (frames: Frame[]) => this.take(frames),
			reset: () => {
				this.state = emptyState();
				this.whole = false;
				this.trim = new Trim();
				this.changed();
			},
			refused: (problem: Problem | null) => {
				this.problem = problem;
				this.changed();
			},
		};
	}

	private takeEphemeral(frame: Frame) {
		const { state } = this;
		switch (frame.type) {
			case 'delta':
				foldDelta(state, frame.data);
				return;
			case 'live':
				state.live = true;
				this.whole = true;
				this.lineage = frame.data.lineage ?? this.lineage;
				if (this.away !== null) {
					const from = this.away;
					const events = state.seq - from;
					this.away = null;
					if (events > 0) this.caughtUp = { events, from, at: Date.now() };
				}
				return;
			case 'presence':
				state.people = frame.data.people;
				return;
			case 'typing':
				state.typing = new Map(state.typing).set(frame.data.person, Date.now());
		}
	}

	/** What was sent and is not in the log yet. It outlives this store and the page. */
	get pending(): PendingPrompt[] {
		return outbox.of(this.id);
	}

	/** Shown at once; the log has the last word. Whether the server took it at the first try. */
	prompt(text: string, now = false) {
		return outbox.add(this.id, text, now);
	}

	retry(key: string) {
		return outbox.retry(key);
	}

	discard(key: string) {
		outbox.drop(key);
	}

	changed() {
		this.version += 1;
		for (const listener of this.listeners) listener();
	}

	subscribe = (listener: () => void) => {
		this.listeners.add(listener);
		return () => {
			this.listeners.delete(listener);
		};
	};
}

const stores = new Map<string, SessionStore>();
/** Sessions that are kept in memory when nobody looks at them. */
const KEPT = 4;

live.watch(() => {
	if (live.link.state !== 'lost') return;
	for (const store of stores.values()) store.lost();
});

outbox.watch((session) => {
	const store = stores.get(session);
	if (!store) return;
	// The log may have been quicker than the answer.
	for (const one of outbox.of(session)) if (one.prompt && store.state.prompts.has(one.prompt)) outbox.drop(one.key);
	store.changed();
});

export function storeOf(id: string): SessionStore {
	let store = stores.get(id);
	stores.delete(id);
	if (!store) store = new SessionStore(id);
	stores.set(id, store);
	for (const other of stores.keys()) {
		if (stores.size <= KEPT) break;
		if (other !== id && !stores.get(other)?.used) stores.delete(other);
	}
	return store;
}

/** Follows a session for as long as something shows it. */
export function useStore(id: string): SessionStore {
	const store = storeOf(id);
	useEffect(() => {
		store.open();
		return () => store.close();
	}, [store]);
	return store;
}

/** A part of a session; drawn again only when that part is another one. */
export function useLive<T>(store: SessionStore, select: (store: SessionStore) => T): T {
	const last = useRef<{ version: number; store: SessionStore; value: T } | null>(null);
	const get = () => {
		const known = last.current;
		if (known && known.version === store.version && known.store === store) {
			// The selector may close over other props than before.
			const value = select(store);
			if (same(value, known.value)) return known.value;
			last.current = { version: store.version, store, value };
			return value;
		}
		const value = select(store);
		const kept = known && known.store === store && same(value, known.value) ? known.value : value;
		last.current = { version: store.version, store, value: kept };
		return kept;
	};
	return useSyncExternalStore(store.subscribe, get);
}

/** Equal, or lists of the same things. */
function same(a: unknown, b: unknown): boolean {
	if (Object.is(a, b)) return true;
	if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((one, at) => Object.is(one, b[at]));
	return false;
}

export function useLink() {
	return useSyncExternalStore(live.watch, () => live.link);
}
