// The page's end of the connection: hands each session its events, once per frame of the screen, and tells how the
// connection is.
import { token } from '../api/client';
import type { Problem } from '../api/types';
import type { Frame, FromConnection, Link, ToConnection } from './connection';

type Bytes = (bytes: Uint8Array) => void;
type Said = (message: Frame) => void;

export interface Follower {
	frames(frames: Frame[]): void;
	reset(): void;
	refused(problem: Problem | null): void;
}

class LiveLink {
	private worker: Worker | null = null;
	private readonly followers = new Map<string, Follower>();
	private readonly terminals = new Map<number, Bytes>();
	private readonly saying = new Set<Said>();
	private readonly watchers = new Set<() => void>();
	private waiting: (() => void)[] = [];
	private asked = false;
	/** What was said to a worker that has not answered yet. */
	private unheard: ToConnection[] | null = [];
	link: Link = { state: 'connecting', since: Date.now() };

	start() {
		if (this.worker) return;
		this.startWorker(1_000);
		const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
		this.post({ op: 'start', url: `${scheme}://${location.host}/api/v1/socket`, token: token() });
		const wake = () => {
			if (document.visibilityState !== 'visible') return;
			// A tab that nobody saw has slow timers: whoever comes back sees all that is here.
			this.handOver();
			this.post({ op: 'wake' });
		};
		document.addEventListener('visibilitychange', wake);
		window.addEventListener('online', wake);
		window.addEventListener('focus', wake);
		window.addEventListener('pageshow', wake);
	}

	/** Its script comes from the server, too: where that is away just then, it is fetched again and told all that was said. */
	private startWorker(pause: number) {
		const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module', name: 'connection' });
		this.worker = worker;
		worker.onmessage = (event: MessageEvent<FromConnection>) => {
			this.unheard = null;
			this.take(event.data);
		};
		worker.onerror = () => {
			if (!this.unheard) return;
			worker.terminate();
			this.take({ op: 'link', link: { state: 'lost', since: Date.now(), retryAt: Date.now() + pause, tries: 1 } });
			setTimeout(() => {
				this.startWorker(Math.min(8_000, pause * 2));
				for (const message of this.unheard ?? []) this.worker?.postMessage(message);
			}, pause);
		};
	}

	/** With another token. */
	again() {
		const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
		this.post({ op: 'start', url: `${scheme}://${location.host}/api/v1/socket`, token: token() });
	}

	private post(message: ToConnection) {
		this.unheard?.push(message);
		this.worker?.postMessage(message);
	}

	private take(message: FromConnection) {
		switch (message.op) {
			case 'link':
				this.link = message.link;
				for (const watcher of this.watchers) watcher();
				return;
			case 'frames':
				this.later(() => this.followers.get(message.session)?.frames(message.frames));
				return;
			case 'reset':
				this.later(() => this.followers.get(message.session)?.reset());
				return;
			case 'refused':
				this.later(() => this.followers.get(message.session)?.refused(message.problem));
				return;
			case 'said':
				for (const said of this.saying) said(message.message);
				return;
			case 'bytes':
				this.terminals.get(message.terminal)?.(message.bytes);
		}
	}

	/** Once per frame; a tab that is not shown has none, and is told soon. */
	private later(what: () => void) {
		this.waiting.push(what);
		if (this.asked) return;
		this.asked = true;
		if (document.visibilityState === 'visible') requestAnimationFrame(this.handOver);
		else setTimeout(this.handOver, 100);
	}

	private handOver = () => {
		this.asked = false;
		const all = this.waiting;
		this.waiting = [];
		for (const one of all) one();
	};

	follow(session: string, after: number, lineage: string | null, follower: Follower) {
		this.followers.set(session, follower);
		this.post({ op: 'subscribe', session, after, lineage });
	}

	unfollow(session: string) {
		this.followers.delete(session);
		this.post({ op: 'unsubscribe', session });
	}

	say(message: object) {
		this.post({ op: 'say', message });
	}

	watchList(on: boolean) {
		this.post({ op: 'list', on });
	}

	onSaid(said: Said) {
		this.saying.add(said);
		return () => {
			this.saying.delete(said);
		};
	}

	onTerminal(terminal: number, bytes: Bytes) {
		this.terminals.set(terminal, bytes);
		return () => {
			this.terminals.delete(terminal);
		};
	}

	sendBytes(terminal: number, bytes: Uint8Array) {
		this.post({ op: 'bytes', terminal, bytes });
	}

	watch = (watcher: () => void) => {
		this.watchers.add(watcher);
		return () => {
			this.watchers.delete(watcher);
		};
	};
}

export const live = new LiveLink();
