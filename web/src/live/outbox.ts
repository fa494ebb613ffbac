// Prompts on their way to the server. Each is kept in this browser, with the key that makes it one command however often it
// is sent, until the server has it: it survives a reload, and what could not be sent is sent when the server is back.
import { ApiError, ask, newKey } from '../api/client';
import { live } from './link';

export interface PendingPrompt {
	key: string;
	session: string;
	text: string;
	now: boolean;
	/** When it was written: what was written first is sent first. */
	at: number;
	/** `waits`: for the server, and goes by itself. `failed`: the server refused it. */
	state: 'sending' | 'waits' | 'failed';
	error: string | null;
	/** The prompt that the server made of it. */
	prompt: string | null;
}

const PREFIX = 'slipway.pending.';
const none: PendingPrompt[] = [];
/** No answer at all, and answers that are others a moment later. */
const MEANWHILE = [0, 408, 409, 429];
const PATIENCE_MS = 30_000;
/** After this much time it is sent again to a server that is there. */
const SOON_MS = 5_000;

function read(key: string): PendingPrompt | null {
	try {
		const kept = JSON.parse(localStorage.getItem(PREFIX + key) ?? 'null') as PendingPrompt | null;
		if (!kept || typeof kept.text !== 'string' || typeof kept.session !== 'string') return null;
		// Nobody knows how far it came; with its key it does no harm to send it again.
		return { ...kept, key, prompt: null, state: kept.state === 'failed' ? 'failed' : 'waits' };
	} catch {
		return null;
	}
}

function keep(one: PendingPrompt) {
	try {
		localStorage.setItem(PREFIX + one.key, JSON.stringify(one));
	} catch {
		// It is kept on the page, at least.
	}
}

function forget(key: string) {
	try {
		localStorage.removeItem(PREFIX + key);
	} catch {
		// A browser that keeps nothing has nothing to forget.
	}
}

export class Outbox {
	private all = new Map<string, PendingPrompt[]>();
	private readonly watchers = new Set<(session: string) => void>();
	private emptying: Promise<void> | null = null;

	constructor() {
		const found: PendingPrompt[] = [];
		try {
			for (let at = 0; at < localStorage.length; at += 1) {
				const name = localStorage.key(at) ?? '';
				const one = name.startsWith(PREFIX) ? read(name.slice(PREFIX.length)) : null;
				if (one) found.push(one);
			}
		} catch {
			// As above.
		}
		for (const one of found.sort((a, b) => a.at - b.at)) this.put(one);
	}

	/** In the order in which they were written; the same list for as long as nothing in it changed. */
	of(session: string): PendingPrompt[] {
		return this.all.get(session) ?? none;
	}

	has(session: string, key: string) {
		return this.of(session).some((one) => one.key === key);
	}

	/** Whether a prompt was not taken by the server yet, as far as this tab or another one knows. */
	onTheWay(session: string, key: string): boolean {
		const here = this.of(session).find((one) => one.key === key);
		return here ? !here.prompt : read(key) !== null;
	}

	watch(watcher: (session: string) => void) {
		this.watchers.add(watcher);
		return () => {
			this.watchers.delete(watcher);
		};
	}

	/** Whether the server took it at once. */
	async add(session: string, text: string, now: boolean, key = newKey()): Promise<boolean> {
		const behind = this.of(session).some((other) => other.state === 'waits');
		const state = behind ? 'waits' : 'sending';
		const one: PendingPrompt = { key, session, text, now, at: Date.now(), state, error: null, prompt: null };
		keep(one);
		this.put(one);
		this.tell(session);
		if (!behind) return this.deliver(one);
		// It does not overtake what was written before.
		await this.empty();
		if (this.find(key)?.state === 'waits') await this.empty();
		return !this.has(session, key) || this.find(key)?.prompt != null;
	}

	async retry(key: string): Promise<boolean> {
		const one = this.find(key);
		if (!one || one.state === 'sending') return false;
		this.change(one, { state: 'sending', error: null });
		return this.deliver(one);
	}

	drop(key: string) {
		const one = this.find(key);
		forget(key);
		if (!one) return;
		this.take(one);
		this.tell(one.session);
	}

	/** The log has it. */
	logged(session: string, prompt: string) {
		const one = this.of(session).find((other) => other.prompt === prompt);
		if (one) this.drop(one.key);
	}

	/** Sends what waits, one after the other: what was written first is first in the queue. */
	empty(): Promise<void> {
		this.emptying ??= this.sendWaiting().finally(() => {
			this.emptying = null;
		});
		return this.emptying;
	}

	/** Another tab put something in, or has sent it. */
	changedElsewhere(name: string | null) {
		if (!name?.startsWith(PREFIX)) return;
		const key = name.slice(PREFIX.length);
		const here = this.find(key);
		const there = read(key);
		if (here && !there && here.state !== 'sending' && !here.prompt) this.drop(key);
		// The tab that has it sends it; this one takes over where it is still there when the server comes back.
		if (!here && there) {
			this.put(there);
			this.tell(there.session);
		}
	}

	private async sendWaiting() {
		for (const session of [...this.all.keys()]) {
			for (const { key } of this.of(session)) {
				if (this.find(key)?.state !== 'waits') continue;
				await this.retry(key);
				// If the server is gone again the rest waits on; a later one must not overtake.
				if (this.find(key)?.state === 'waits') return;
			}
		}
	}

	private async deliver({ key, session, text, now }: PendingPrompt): Promise<boolean> {
		try {
			const answer = await ask('POST', `/sessions/${session}/prompts`, {
				body: { prompt: text, ...(now ? { now } : {}) },
				key,
				// What follows waits for it, so it is not waited for without an end.
				signal: AbortSignal.timeout(PATIENCE_MS),
			});
			const { id } = (await answer.json()) as { id: string };
			// From here on it is the server's; on the page it stays until the log has it.
			const one = this.find(key);
			forget(key);
			if (one) this.change(one, { prompt: id });
			return true;
		} catch (error) {
			const one = this.find(key);
			const away = !(error instanceof ApiError) || error.status >= 500 || MEANWHILE.includes(error.status);
			if (away) setTimeout(() => live.link.state === 'open' && this.empty(), SOON_MS);
			const why = error instanceof Error ? error.message : String(error);
			if (one) this.change(one, { state: away ? 'waits' : 'failed', error: why });
			return false;
		}
	}

	private find(key: string): PendingPrompt | undefined {
		for (const list of this.all.values()) {
			const one = list.find((other) => other.key === key);
			if (one) return one;
		}
		return undefined;
	}

	private put(one: PendingPrompt) {
		this.all.set(one.session, [...this.of(one.session), one]);
	}

	private take(one: PendingPrompt) {
		const rest = this.of(one.session).filter((other) => other !== one);
		if (rest.length) this.all.set(one.session, rest);
		else this.all.delete(one.session);
	}

	private change(one: PendingPrompt, what: Partial<PendingPrompt>) {
		const next = { ...one, ...what };
		this.all.set(
			one.session,
			this.of(one.session).map((other) => (other === one ? next : other)),
		);
		if (!next.prompt) keep(next);
		this.tell(one.session);
	}

	private tell(session: string) {
		for (const watcher of this.watchers) watcher(session);
	}
}

export const outbox = new Outbox();

/** Sends what waits whenever there is a connection. */
export function keepSending() {
	const look = () => {
		if (live.link.state === 'open') outbox.empty();
	};
	const changed = (event: StorageEvent) => outbox.changedElsewhere(event.key);
	window.addEventListener('storage', changed);
	const stop = live.watch(look);
	look();
	return () => {
		window.removeEventListener('storage', changed);
		stop();
	};
}
