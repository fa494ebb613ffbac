// The built app in front of a server that does not serve it (yet): its files, its policy for scripts and styles, and
// everything under /api from the server behind it.
import { existsSync, readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { connect } from 'node:net';
import { extname, join, normalize, resolve } from 'node:path';

const types = {
	'.html': 'text/html; charset=utf-8',
	'.js': 'text/javascript',
	'.css': 'text/css',
	'.svg': 'image/svg+xml',
	'.png': 'image/png',
	'.webmanifest': 'application/manifest+json',
};
const policy =
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
export const dist = resolve(import.meta.dirname, '../..', process.env.SLIPWAY_WEB ?? 'dist');

export async function startFront(target, port = 0) {
	const { hostname, port: behind } = new URL(target);
	const headers = (incoming) => {
		const { origin: _, ...rest } = incoming;
		return { ...rest, host: `${hostname}:${behind}` };
	};
	let away = false;
	let files = dist;
	const server = createServer((incoming, outgoing) => {
		if (away) return incoming.socket.destroy();
		if (incoming.url.startsWith('/api/')) {
			const forward = request(
				{ hostname, port: behind, path: incoming.url, method: incoming.method, headers: headers(incoming.headers) },
				(answer) => {
					outgoing.writeHead(answer.statusCode, answer.headers);
					answer.pipe(outgoing);
				},
			);
			forward.on('error', () => outgoing.writeHead(502).end());
			incoming.pipe(forward);
			return;
		}
		const path = normalize(new URL(incoming.url, target).pathname);
		const file = join(files, path);
		const there = path !== '/' && existsSync(file);
		// What looks like a file and is none is a mistake, as at the server itself.
		if (!there && path.split('/').at(-1).includes('.')) return outgoing.writeHead(404).end();
		const found = there ? file : join(files, 'index.html');
		outgoing.writeHead(200, {
			'content-type': types[extname(found)] ?? 'application/octet-stream',
			'content-security-policy': policy,
		});
		outgoing.end(readFileSync(found));
	});
	const open = new Set();
	server.on('upgrade', (incoming, socket, head) => {
		if (away) return socket.destroy();
		open.add(socket);
		socket.on('close', () => open.delete(socket));
		const upstream = connect(Number(behind), hostname, () => {
			const lines = Object.entries(headers(incoming.headers)).map(([name, value]) => `${name}: ${value}`);
			upstream.write(`GET ${incoming.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
			upstream.write(head);
			socket.pipe(upstream).pipe(socket);
		});
		socket.behind = upstream;
		upstream.on('error', () => socket.destroy());
		socket.on('error', () => upstream.destroy());
	});
	await new Promise((done) => server.listen(port, '127.0.0.1', done));
	const close = () => {
		// Connections that were handed over are not the server's any more.
		for (const socket of open) socket.destroy();
		server.closeAllConnections();
		server.close();
	};
	return {
		url: `http://127.0.0.1:${server.address().port}`,
		close,
		/** The network is gone: connections break, and there are no new ones. */
		cut() {
			away = true;
			for (const socket of open) socket.destroy();
			server.closeAllConnections();
		},
		/** As after a machine's sleep: connections look open, and nothing comes through them any more. */
		silence() {
			for (const socket of open) {
				socket.unpipe();
				socket.behind.unpipe();
			}
		},
		mend() {
			away = false;
		},
		/** From now on another build of the app. */
		upgrade(directory) {
			files = directory;
		},
	};
}
