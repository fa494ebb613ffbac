// A real server with a real sandbox and the scripted model, in a directory of its own. Ends with the process that
// started it.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startForge } from './forge.mjs';
import { startModel } from './model.mjs';
import { PNG_BEFORE } from './scripts.mjs';

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../../..');

/** The program under test: SLIPWAY_BIN, or the release build of this repository. */
export const program =
	process.env.SLIPWAY_BIN ?? join(process.env.CARGO_TARGET_DIR ?? join(root, 'target'), 'release/slipway');
if (!existsSync(program)) throw new Error(`there is no ${program}: build it with make build, or set SLIPWAY_BIN`);

export async function freePort() {
	const probe = createServer();
	await new Promise((done) => probe.listen(0, '127.0.0.1', done));
	const { port } = probe.address();
	await new Promise((done) => probe.close(done));
	return port;
}

const files = {
	'package.json': `${JSON.stringify({ name: 'shop', version: '1.0.0', type: 'module', scripts: { test: 'node --test' } }, null, 2)}\n`,
	'README.md': '# Shop\n\nA cart, and what it costs.\n',
	'src/cart.js': `/** What a cart costs, in cents, rounded half up to a whole cent. */
export function total(lines, discountPercent = 0) {
  const sum = lines.reduce((sum, line) => sum + line.price * line.quantity, 0);
  return Math.floor(sum - (sum * discountPercent) / 100);
}

/** How many things are in a cart. */
export function count(lines) {
  return lines.reduce((count, line) => count + line.quantity, 0);
}
`,
	'test/cart.test.js': `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { count, total } from '../src/cart.js';

test('a cart adds up', () => {
  assert.equal(total([{ price: 250, quantity: 2 }, { price: 199, quantity: 1 }]), 699);
});

test('a half cent is rounded up', () => {
  assert.equal(total([{ price: 1005, quantity: 1 }], 10), 905);
});

test('an empty cart costs nothing', () => {
  assert.equal(total([]), 0);
  assert.equal(count([]), 0);
});
`,
};

function makeRepository(directory) {
	const work = join(directory, 'work');
	for (const [name, text] of Object.entries(files)) {
		mkdirSync(dirname(join(work, name)), { recursive: true });
		writeFileSync(join(work, name), text);
	}
	const git = (...args) =>
		execFileSync('git', ['-C', work, '-c', 'user.name=Ana', '-c', 'user.email=ana@example.com', ...args], {
			stdio: 'pipe',
		});
	writeFileSync(join(work, 'logo.png'), Buffer.from(PNG_BEFORE, 'base64'));
	git('init', '-q', '-b', 'main');
	git('add', '.');
	git('commit', '-q', '-m', 'A cart');
	execFileSync('git', ['clone', '-q', '--bare', work, join(directory, 'shop.git')], { stdio: 'pipe' });
	return join(directory, 'shop.git');
}

/** Sandboxes outlive their server; those of a test must not. */
function removeSandboxes(config, env) {
	const run = (...args) =>
		execFileSync(program, ['--config', config, '--json', 'sandbox', ...args], { env, stdio: 'pipe', encoding: 'utf8' });
	try {
		for (const id of new Set(run('ls').match(/sbx_[0-9a-z]{26}/g) ?? [])) run('rm', id);
	} catch {
		// What is left has a limit on its life.
	}
}

/** Starts everything; `people` are names that get tokens of their own. */
export async function startServer({
	people = [],
	directory = mkdtempSync(join(tmpdir(), 'slipway-web-')),
	port,
	extra = '',
} = {}) {
	const model = await startModel();
	const repository = makeRepository(directory);
	const forge = await startForge({ directory, people: { 'token-of-ana-at-the-forge': 'ana' } });
	const at = port ?? (await freePort());
	const tokens = Object.fromEntries(people.map((name) => [name, `token-of-${name}-0123456789`]));
	const environment = {
		...process.env,
		...forge.variables,
		...Object.fromEntries(people.map((name) => [`TOKEN_${name.toUpperCase()}`, tokens[name]])),
	};
	const check = 'checks = [{ name = "test", run = "npm test", parser = "auto" }]';
	const recipe = `repos = [{ url = "${repository}", branch = "main" }]\nbase = "host"\n${check}\nmodel = "main"\n`;
	const config = join(directory, 'slipway.toml');
	writeFileSync(
		config,
		`[server]
listen = "127.0.0.1:${at}"
data_dir = "${join(directory, 'data')}"
${people.length ? `tokens = { ${people.map((name) => `${name} = "TOKEN_${name.toUpperCase()}"`).join(', ')} }` : ''}

[agent]
command_timeout_s = 90

[budget.session]
usd = 2.0

[models.main]
provider = "openai-compatible"
model = "scripted"
base_url = "${model.url}"
price = { input = 3.0, output = 15.0 }
context = 64000
idle_timeout_s = 200

[models.spare]
provider = "openai-compatible"
model = "scripted-small"
base_url = "${model.url}"
price = { input = 0.3, output = 1.5 }
context = 32000

[environments.shop]
${recipe}
[environments.careful]
repos = [{ url = "${repository}", branch = "main" }]
base = "host"
model = "main"
checks = [{ name = "syntax", run = "node --check src/cart.js", parser = "auto" }]
approve = ["delivery"]
policy = { rules = [ { then = "ask", tool = "write" } ] }

[environments.free]
repos = [{ url = "${repository}", branch = "main" }]
base = "host"
model = "main"

[environments.hosted]
repos = [{ url = "${forge.take(repository, 'acme/shop')}", branch = "main" }]
base = "host"
${check}
model = "main"
${forge.config}
${extra}`,
	);
	let child;
	const url = `http://127.0.0.1:${at}`;
	const start = async () => {
		child = spawn(program, ['--config', config, 'serve'], { env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
		let said = '';
		child.stderr.on('data', (text) => {
			said += text;
			if (process.env.VERBOSE) process.stderr.write(text);
		});
		child.stdout.on('data', () => undefined);
		for (let tries = 0; tries < 600; tries += 1) {
			if (child.exitCode !== null) throw new Error(`the server ended: ${said}`);
			const health = await fetch(`${url}/api/v1/health`, { headers: auth(people[0]) }).catch(() => undefined);
			if (health?.ok) return;
			await new Promise((done) => setTimeout(done, 50));
		}
		throw new Error(`the server does not answer: ${said}`);
	};
	const kill = async (signal = 'SIGKILL') => {
		if (!child || child.exitCode !== null || child.signalCode !== null) return;
		const ended = new Promise((done) => child.once('exit', done));
		child.kill(signal);
		await ended;
	};
	const auth = (person) => (person && tokens[person] ? { authorization: `Bearer ${tokens[person]}` } : {});
	const call = async (method, path, body, person) => {
		const response = await fetch(`${url}/api/v1${path}`, {
			method,
			headers: {
				accept: 'application/json',
				'slipway-client': 'web',
				...auth(person),
				...(body === undefined ? {} : { 'content-type': 'application/json' }),
			},
			body: body === undefined ? undefined : JSON.stringify(body),
		});
		const text = await response.text();
		if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
		return text ? JSON.parse(text) : undefined;
	};
	await start();
	return {
		url,
		model,
		forge,
		tokens,
		directory,
		repository,
		call,
		start,
		kill,
		/** Waits until a session has one of these statuses. */
		async status(id, ...wanted) {
			for (let tries = 0; tries < 1200; tries += 1) {
				const session = await call('GET', `/sessions/${id}`);
				if (wanted.includes(session.status)) return session;
				await new Promise((done) => setTimeout(done, 50));
			}
			throw new Error(`${id} did not become ${wanted.join(' or ')}`);
		},
		async stop() {
			await kill('SIGTERM');
			model.close();
			forge.close();
			if (!process.env.KEEP) {
				removeSandboxes(config, environment);
				rmSync(directory, { recursive: true, force: true, maxRetries: 3 });
			}
		},
	};
}
