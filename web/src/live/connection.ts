// The one socket. It lives in a worker, so that reading and parsing a long log costs the page nothing; what it hands over
// is shortened where it is long, and comes in batches. It comes back by itself after sleep, loss of the network and a
// restart of the server, and goes on after the last event that it handed over.
import type { Problem } from '../api/types';
import { shortened } from './shorten';

// biome-ignore lint/suspicious/noExplicitAny: what comes over the wire is looked at where it is used.
export type Frame = any;

export type ToConnection =
	| { op: 'start'; url: string; token: string | null }
	| { op: 'subscribe'; session: string; after: number; lineage: string | null }
	| { op: 'unsubscribe'; session: string }
	| { op: 'say'; message: object }
	| { op: 'bytes'; terminal: number; bytes: Uint8Array }
	| { op: 'list'; on: boolean }
	| { op: 'wake' }
	| { op: 'stop' };

export type Link =
	| { state: 'connecting'; since: number }
	| { state: 'open'; since: number }
	| { state: 'lost'; since: number; retryAt: number; tries: number };

export type FromConnection =
	| { op: 'link'; link: Link }
	| { op: 'frames'; session: string; frames: Frame[] }
	| { op: 'reset'; session: string }
	| { op: 'refused'; session: string; problem: Problem | null }
	| { op: 'said'; message: Frame }
	| { op: 'bytes'; terminal: number; bytes: Uint8Array };

interface Cursor {
	after: number;
	lineage: string | null;
}

/** Time between batches: a frame of the screen. */
const BATCH_MS = 16;
/** A batch that is this large is handed over at once. */
const BATCH = 2000;
/** A sign of life is asked for after this much silence, and the connection given up after as much again. */
const SILENCE_MS = 20_000;

export class Connection {
	private socket: WebSocket | null = null;
	private url = '';
	private token: string | null = null;
	private readonly cursors = new Map<string, Cursor>();
	private list = false;
	private tries = 0;
	private retry: ReturnType<typeof setTimeout> | null = null;
	private batches = new Map<string, Frame[]>();
	private flush: ReturnType<typeof setTimeout> | null = null;
	private heard = 0;
	private pulse: ReturnType<typeof setInterval> | null = null;
	private readonly tell: (message: FromConnection, transfer?: Transferable[]) => void;

	constructor(tell: (message: FromConnection, transfer?: Transferable[]) => void) {
		this.tell = tell;
	}

	handle(message: ToConnection) {
		switch (message.op) {
			case 'start':
				this.url = message.url;
				this.token = message.token;
				this.open();
				return;
			case 'subscribe':
				this.cursors.set(message.session, { after: message.after, lineage: message.lineage });
				this.subscribe(message.session);
				return;
			case 'unsubscribe':
				this.cursors.delete(message.session);
				this.batches.delete(message.session);
				this.say({ type: 'unsubscribe', session: message.session });
				return;
			case 'say':
				this.say(message.message);
				return;
			case 'bytes': {
				const bytes = new Uint8Array(4 + message.bytes.length);
				new DataView(bytes.buffer).setUint32(0, message.terminal);
				bytes.set(message.bytes, 4);
				if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(bytes);
				return;
			}
			case 'list':
				this.list = message.on;
				this.say({ type: message.on ? 'list.subscribe' : 'list.unsubscribe' });
				return;
			case 'wake':
				this.wake();
				return;
			case 'stop':
				this.cursors.clear();
				this.drop();
				if (this.retry) clearTimeout(this.retry);
				this.retry = null;
				return;
		}
	}

	private open() {
		if (this.retry) clearTimeout(this.retry);
		this.retry = null;
		this.drop();
		this.tell({ op: 'link', link: { state: 'connecting', since: Date.now() } });
		const protocols = this.token ? ['slipway.v1', `slipway.token.${this.token}`] : ['slipway.v1'];
		let socket: WebSocket;
		try {
			socket = new WebSocket(this.url, protocols);
		} catch {
			this.lost();
			return;
		}
		socket.binaryType = 'arraybuffer';
		this.socket = socket;
		socket.onopen = () => {
			if (this.socket !== socket) return;
			this.tries = 0;
			this.heard = Date.now();
			this.tell({ op: 'link', link: { state: 'open', since: Date.now() } });
			for (const session of this.cursors.keys()) this.subscribe(session);
			if (this.list) this.say({ type: 'list.subscribe' });
			this.pulse = setInterval(() => this.beat(), SILENCE_MS / 4);
		};
		socket.onmessage = (event: MessageEvent<string | ArrayBuffer>) => {
			if (this.socket !== socket) return;
			this.heard = Date.now();
			if (typeof event.data === 'string') this.take(event.data);
			else this.takeBytes(event.data);
		};
		socket.onclose = () => {
			if (this.socket === socket) this.lost();
		};
	}

	private drop() {
		const socket = this.socket;
		this.socket = null;
		if (this.pulse) clearInterval(this.pulse);
		this.pulse = null;
		if (socket) {
			socket.onopen = null;
			socket.onmessage = null;
			socket.onclose = null;
			socket.close();
		}
	}

	private lost() {
		this.drop();
		this.deliver();
		// Soon at first, then less often, and never all clients at the same instant.
		const delay = Math.min(8_000, 250 * 2 ** Math.min(this.tries, 5)) * (0.75 + Math.random() / 2);
		this.tries += 1;
		this.tell({
			op: 'link',
			link: { state: 'lost', since: Date.now(), retryAt: Date.now() + delay, tries: this.tries },
		});
		this.retry = setTimeout(() => this.open(), delay);
	}

	/** The machine woke up, or the network is back: do not wait for a timer, and do not trust a connection that slept. */
	private wake() {
		if (this.retry) this.open();
		else if (this.socket?.readyState === WebSocket.OPEN) {
			this.say({ type: 'ping' });
			const asked = Date.now();
			setTimeout(() => {
				if (this.socket && this.heard < asked) this.lost();
			}, 3_000);
		}
	}

	private beat() {
		const silent = Date.now() - this.heard;
		if (silent > 2 * SILENCE_MS) this.lost();
		else if (silent > SILENCE_MS) this.say({ type: 'ping' });
	}

	private say(message: object) {
		if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
	}

	private subscribe(session: string) {
		const cursor = this.cursors.get(session);
		if (!cursor) return;
		this.say({
			type: 'subscribe',
			session,
			after: cursor.after,
			...(cursor.lineage && cursor.after > 0 ? { lineage: cursor.lineage } : {}),
		});
	}

	private take(text: string) {
		const frame: Frame = JSON.parse(text);
		const session: string | undefined = frame.session;
		const cursor = session ? this.cursors.get(session) : undefined;
		if (typeof frame.seq === 'number') {
			if (!session || !cursor || frame.seq <= cursor.after) return;
			cursor.after = frame.seq;
			this.collect(session, shortened(frame));
			return;
		}
		switch (frame.type) {
			case 'subscribed':
				if (cursor && frame.data?.lineage) cursor.lineage = frame.data.lineage;
				return;
			case 'delta':
			case 'live':
			case 'presence':
			case 'typing':
				if (session && cursor) {
					if (frame.type === 'live' && frame.data.lineage) cursor.lineage = frame.data.lineage;
					this.collect(session, frame);
				}
				return;
			case 'unsubscribed': {
				if (!session || !cursor) return;
				const problem: Problem | null = frame.data?.problem ?? null;
				if (problem?.code === 'other_lineage' || problem?.code === 'after_end') {
					// The log was restored from a backup: what is here never happened there.
					this.batches.delete(session);
					this.cursors.set(session, { after: 0, lineage: null });
					this.tell({ op: 'reset', session });
					this.subscribe(session);
				} else if (problem) this.tell({ op: 'refused', session, problem });
				return;
			}
			case 'ping':
				return;
			default:
				this.tell({ op: 'said', message: frame });
		}
	}

	private takeBytes(buffer: ArrayBuffer) {
		const terminal = new DataView(buffer).getUint32(0);
		const bytes = new Uint8Array(buffer.slice(4));
		this.tell({ op: 'bytes', terminal, bytes }, [bytes.buffer]);
	}

	private collect(session: string, frame: Frame) {
		let batch = this.batches.get(session);
		if (!batch) {
			batch = [];
			this.batches.set(session, batch);
		}
		// Pieces that follow each other are one piece.
		const last = batch.at(-1);
		if (
			frame.type === 'delta' &&
			last?.type === 'delta' &&
			last.data.item === frame.data.item &&
			last.data.channel === frame.data.channel &&
			last.end === frame.data.offset
		) {
			last.data.text += frame.data.text;
			last.end += utf8Length(frame.data.text);
			return;
		}
		if (frame.type === 'delta') frame.end = frame.data.offset + utf8Length(frame.data.text);
		batch.push(frame);
		if (batch.length >= BATCH) this.deliver();
		else if (!this.flush) this.flush = setTimeout(() => this.deliver(), BATCH_MS);
	}

	private deliver() {
		if (this.flush) clearTimeout(this.flush);
		this.flush = null;
		const batches = this.batches;
		this.batches = new Map();
		for (const [session, frames] of batches) if (frames.length) this.tell({ op: 'frames', session, frames });
	}
}

const encoder = new TextEncoder();
function utf8Length(text: string) {
	return encoder.encode(text).length;
}
