// A small GitHub: repositories that git fetches and pushes over HTTP, pull requests, people who sign in with a token or a code,
// and the signed word that a pull request was merged. As far as the tests of the web app need it; the whole of it is in
// `testkit`.
import { execFileSync, spawn } from 'node:child_process';
import { createHmac, randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';

const SECRET = 'what-the-forge-signs-with';
const OURS = 'token-of-the-server';

const read = async (request) => {
	const pieces = [];
	for await (const piece of request) pieces.push(piece);
	return Buffer.concat(pieces);
};

/** Starts it with the given people, by their tokens. */
export async function startForge({ directory, people = {} }) {
	const repositories = join(directory, 'forge');
	const pulls = [];
	const devices = [];
	let url = '';

	const shown = (pull) => ({
		number: pull.number,
		node_id: `PR_${pull.number}`,
		html_url: `${url}/${pull.repository}/pull/${pull.number}`,
		state: pull.merged_at ? 'closed' : 'open',
		draft: pull.draft,
		merged_at: pull.merged_at,
		merged: pull.merged_at !== null,
		updated_at: new Date().toISOString(),
		title: pull.title,
		body: pull.body,
		head: { ref: pull.head, sha: '0'.repeat(40) },
		base: { ref: pull.base },
		user: { login: pull.author },
	});

	/** What `git http-backend` answers, as a program of a web server does. */
	const git = (request, body, response) => {
		const { pathname, search } = new URL(request.url, url);
		const backend = spawn('git', ['http-backend'], {
			env: {
				...process.env,
				GIT_PROJECT_ROOT: repositories,
				GIT_HTTP_EXPORT_ALL: '1',
				PATH_INFO: pathname,
				QUERY_STRING: search.slice(1),
				REQUEST_METHOD: request.method,
				REMOTE_USER: 'somebody',
				CONTENT_TYPE: request.headers['content-type'] ?? '',
				HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
				...(request.headers['git-protocol'] ? { GIT_PROTOCOL: request.headers['git-protocol'] } : {}),
			},
			stdio: ['pipe', 'pipe', 'ignore'],
		});
		const pieces = [];
		backend.stdout.on('data', (piece) => pieces.push(piece));
		backend.on('close', () => {
			const all = Buffer.concat(pieces);
			const end = all.indexOf('\r\n\r\n');
			const headers = Object.fromEntries(
				all
					.subarray(0, Math.max(0, end))
					.toString()
					.split('\r\n')
					.map((line) => line.split(/:\s*/, 2)),
			);
			const status = Number.parseInt(headers.Status ?? '200', 10);
			delete headers.Status;
			response.writeHead(status, headers).end(all.subarray(end + 4));
		});
		backend.stdin.on('error', () => undefined);
		backend.stdin.end(body);
	};

	const server = createServer(async (request, response) => {
		const body = await read(request);
		const { pathname } = new URL(request.url, 'http://forge');
		const say = (status, value) =>
			response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
		const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
		const who = token === OURS ? 'slipway' : people[token];
		const form = new URLSearchParams(body.toString());
		if (/\.git\//.test(pathname)) return git(request, body, response);
		if (pathname === '/login/device/code') {
			const device = { code: `CODE-${1000 + devices.length}`, secret: randomUUID(), login: null };
			devices.push(device);
			return say(200, {
				device_code: device.secret,
				user_code: device.code,
				verification_uri: `${url}/login/device`,
				expires_in: 900,
				interval: 1,
			});
		}
		if (pathname === '/login/oauth/access_token') {
			const device = devices.find((one) => one.secret === form.get('device_code'));
			if (!device?.login) return say(200, { error: 'authorization_pending' });
			const granted = `granted-${randomUUID()}`;
			people[granted] = device.login;
			return say(200, { access_token: granted, token_type: 'bearer' });
		}
		if (!who) return say(401, { message: 'Bad credentials' });
		if (pathname === '/api/v3/user') return say(200, { login: who, id: 1 });
		const found = /^\/api\/v3\/repos\/([^/]+\/[^/]+)\/pulls(?:\/(\d+))?$/.exec(pathname);
		if (!found) return say(404, { message: 'Not Found' });
		const [, repository, number] = found;
		if (request.method === 'POST') {
			const { title, body: text, head, base, draft = false } = JSON.parse(body.toString());
			const branch = head.replace(/^.*:/, '');
			const pull = { number: pulls.length + 1, repository, title, body: text, head: branch, base, draft };
			pulls.push(Object.assign(pull, { author: who, merged_at: null }));
			return say(201, shown(pull));
		}
		const ours = pulls.filter((pull) => pull.repository === repository);
		if (!number) return say(200, ours.map(shown));
		const pull = ours.find((one) => one.number === Number(number));
		if (!pull) return say(404, { message: 'Not Found' });
		if (request.method === 'PATCH') Object.assign(pull, JSON.parse(body.toString()));
		return say(200, shown(pull));
	});
	await new Promise((done) => server.listen(0, '127.0.0.1', done));
	url = `http://127.0.0.1:${server.address().port}`;
	return {
		url,
		pulls,
		/** What the server's configuration says of it, and the variables that it names. */
		config: `
[forges.github]
kind = "github"
url = "${url}"
token_env = "FORGE_TOKEN"
git = "token"
client_id = "slipway-of-the-tests"
webhook_secret_env = "FORGE_SECRET"
`,
		variables: { FORGE_TOKEN: OURS, FORGE_SECRET: SECRET },
		/** Takes a repository in, as owner/name; where it is then. */
		take(repository, name) {
			const path = join(repositories, `${name}.git`);
			mkdirSync(dirname(path), { recursive: true });
			execFileSync('git', ['clone', '-q', '--bare', repository, path], { stdio: 'pipe' });
			execFileSync('git', ['-C', path, 'config', 'http.receivepack', 'true']);
			return `${url}/${name}.git`;
		},
		/** Somebody types a code in. */
		typeIn(code, login) {
			const device = devices.find((one) => one.code === code);
			if (!device) throw new Error(`nobody was given the code ${code}`);
			device.login = login;
		},
		/** Somebody merges a pull request, and the server is told. */
		async merge(number, slipway) {
			const pull = pulls.find((one) => one.number === number);
			pull.merged_at = new Date().toISOString();
			const body = JSON.stringify({
				action: 'closed',
				number,
				pull_request: shown(pull),
				repository: { full_name: pull.repository },
				sender: { login: 'ana' },
			});
			const answer = await fetch(`${slipway}/api/v1/hooks/github`, {
				method: 'POST',
				headers: {
					'content-type': 'application/json',
					'x-github-event': 'pull_request',
					'x-github-delivery': randomUUID(),
					'x-hub-signature-256': `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`,
				},
				body,
			});
			if (!answer.ok) throw new Error(`the hook was not taken: ${answer.status} ${await answer.text()}`);
		},
		close() {
			server.closeAllConnections();
			server.close();
		},
	};
}
