// A server that speaks as much of the protocol as the app needs, and says what a test wants it to: for what no real session
// comes to in a test's time (logs of 50 MB, 500 sessions, 10,000 changed files), and to measure the app alone.
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { startFront } from './dev.mjs';

export const LINEAGE = 'lin_00000000000000000000000001';

function frame(text) {
	const body = Buffer.from(text);
	const head =
		body.length < 126
			? Buffer.from([0x81, body.length])
			: body.length < 65_536
				? Buffer.from([0x81, 126, body.length >> 8, body.length & 255])
				: Buffer.concat([
						Buffer.from([0x81, 127, 0, 0, 0, 0]),
						Buffer.from(new Uint32Array([body.length]).buffer).reverse(),
					]);
	return Buffer.concat([head, body]);
}

/** What a client said, in messages that fit into one frame each. */
function* said(buffer) {
	let at = 0;
	while (at + 6 <= buffer.length) {
		let length = buffer[at + 1] & 127;
		let from = at + 2;
		if (length === 126) {
			length = buffer.readUInt16BE(at + 2);
			from = at + 4;
		}
		const mask = buffer.subarray(from, from + 4);
		const body = Buffer.from(buffer.subarray(from + 4, from + 4 + length));
		for (let one = 0; one < body.length; one += 1) body[one] ^= mask[one % 4];
		if ((buffer[at] & 15) === 1) yield body.toString();
		at = from + 4 + length;
	}
}

export const noSpend = { usage: {}, cost_usd: 0, calls: 0, unpriced_calls: 0 };

/** A session as lists show it. */
export function listed(number, more = {}) {
	return {
		id: `ses_${String(number).padStart(26, '0')}`,
		title: `Session ${number}`,
		environment: 'shop',
		model: 'main',
		status: 'done',
		group: 'finished',
		origin: 'web',
		seq: 1,
		created_at: '2026-11-01T10:00:00Z',
		updated_at: '2026-11-01T12:00:00Z',
		queued: [],
		authors: [{ name: 'ana', prompts: 1, last_prompt_at: '2026-11-01T10:00:00Z' }],
		spend: { ...noSpend, cost_usd: 0.12, calls: 3 },
		...more,
	};
}

/** Writes a log, event after event; two a second. */
export function logOf(session, start = Date.parse('2026-11-01T10:00:00Z')) {
	const lines = [];
	return {
		session,
		lines,
		put(type, data, actor = { kind: 'agent', id: 'main' }) {
			const seq = lines.length + 1;
			const at = new Date(start + seq * 500).toISOString();
			lines.push(JSON.stringify({ v: 1, session, seq, id: `evt_${seq}`, at, actor, type, data }));
			return lines.at(-1);
		},
	};
}

/**
 * `sessions` are those of the list, `logs` the lines of each by its id, `answers` what is answered to a path (with its
 * method before it, where that is not GET): a body, or a function of the address and what was sent. Of a log in `stalls` only
 * as many lines are sent, until `goOn`.
 */
export async function startStandIn({ sessions = [], logs = {}, answers = {}, stalls = {} }) {
	const standing = {
		'/api/v1/me': { name: 'ana', source: 'local', needs_token: false, version: '0.1.0', instance: 'stand-in' },
		'/api/v1/sessions': { sessions, counts: { needs_you: 0, working: 0, finished: sessions.length } },
		'/api/v1/environments': { environments: [] },
		'/api/v1/models': { models: [] },
		...Object.fromEntries(sessions.map((session) => [`/api/v1/sessions/${session.id}`, session])),
		...answers,
	};
	/** Commands, as they came. */
	const asked = [];
	const api = createServer(async (incoming, outgoing) => {
		let body = '';
		for await (const chunk of incoming) body += chunk;
		const address = new URL(incoming.url, 'http://here');
		const { method } = incoming;
		const sent = body ? JSON.parse(body) : undefined;
		if (method !== 'GET') asked.push({ method, path: address.pathname, body: sent });
		const found = standing[method === 'GET' ? address.pathname : `${method} ${address.pathname}`];
		const answer = typeof found === 'function' ? await found(address, sent) : found;
		outgoing.writeHead(answer?.status >= 400 ? answer.status : answer ? 200 : 404, {
			'content-type': 'application/json',
		});
		outgoing.end(JSON.stringify(answer ?? { code: 'not_found', status: 404, title: 'not here' }));
	});
	const sockets = new Map();
	const stalled = [];
	api.on('upgrade', (incoming, socket) => {
		sockets.set(socket, new Set());
		const accept = createHash('sha1')
			.update(`${incoming.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
			.digest('base64');
		socket.write(
			`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: slipway.v1\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
		);
		socket.on('error', () => undefined);
		socket.on('close', () => sockets.delete(socket));
		socket.on('data', (bytes) => {
			for (const text of said(bytes)) {
				const message = JSON.parse(text);
				const lines = logs[message.session];
				if (message.type !== 'subscribe' || !lines) continue;
				sockets.get(socket)?.add(message.session);
				const say = (type, data) => socket.write(frame(JSON.stringify({ type, session: message.session, data })));
				const send = (first, last) => {
					for (let from = first; from < last; from += 500)
						socket.write(Buffer.concat(lines.slice(from, Math.min(last, from + 500)).map(frame)));
				};
				const end = () => say('live', { seq: lines.length, lineage: LINEAGE });
				say('subscribed', { lineage: LINEAGE });
				const stop = stalls[message.session] ?? lines.length;
				send(message.after, stop);
				if (stop === lines.length) end();
				else
					stalled.push(() => {
						send(stop, lines.length);
						end();
					});
			}
		});
	});
	await new Promise((done) => api.listen(0, '127.0.0.1', done));
	const front = await startFront(`http://127.0.0.1:${api.address().port}`);
	return {
		url: front.url,
		front,
		asked,
		/** The rest of the logs that were stalled. */
		goOn() {
			for (const go of stalled.splice(0)) go();
		},
		/** To everybody who follows the session: the next line of its log, or what is told in between. */
		tell(session, line) {
			const text = typeof line === 'string' ? line : JSON.stringify({ session, ...line });
			for (const [socket, follows] of sockets) if (follows.has(session)) socket.write(frame(text));
		},
		close() {
			front.close();
			for (const socket of sockets.keys()) socket.destroy();
			api.closeAllConnections();
			api.close();
		},
	};
}
