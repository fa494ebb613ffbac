// Much of everything, and what is meant to deceive: with a stand-in for the server, since no session comes to it by itself.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { barriers, startBrowser } from '../support/browser.mjs';
import { listed, logOf, noSpend, startStandIn } from '../support/stand-in.mjs';

let browser;
const ends = [];
before(async () => {
	browser = await startBrowser();
});
after(() => browser?.close());
afterEach(async () => {
	for (const end of ends.splice(0).reverse()) await end();
});

async function standIn(what) {
	const stand = await startStandIn(what);
	ends.push(() => stand.close());
	return stand;
}

async function open(url, how) {
	const page = await browser.page(how);
	page.setDefaultTimeout(20_000);
	ends.push(async () => {
		await page.context().close();
		assert.deepEqual(page.problems, []);
	});
	await page.goto(url);
	return page;
}

const ID = listed(1).id;

/** What a real session sent, as one with our number. */
function golden(name, id = ID) {
	return readFileSync(join(import.meta.dirname, `../golden/${name}.jsonl`), 'utf8')
		.trim()
		.split('\n')
		.map((line) => JSON.parse(line))
		.filter((event) => typeof event.seq === 'number')
		.map((event) => JSON.stringify({ ...event, session: id }));
}

test('of 500 sessions the page is as high as the screen, and a phone shows what came of each', async () => {
	const sessions = Array.from({ length: 500 }, (_, at) =>
		listed(at + 1, {
			changes: { files: 1, insertions: at, deletions: 2 },
			checks: [{ name: 'test', passed: true }],
			delivery: { state: 'opened', branch: 'b', number: at, commit: 'c', remote: 'r' },
		}),
	);
	const stand = await standIn({ sessions });
	for (const how of [{}, { phone: true }]) {
		const page = await open(stand.url, how);
		const main = page.locator('#main');
		await main.getByText('Session 1', { exact: true }).waitFor();
		const [high, screen] = await page.evaluate(() => [document.documentElement.scrollHeight, window.innerHeight]);
		assert.ok(high <= screen, `the page is ${high} px high on a screen of ${screen}`);
		assert.equal(await main.getByRole('listitem').count(), 100);
		await main.getByRole('button', { name: 'Show 100 more' }).click();
		await main.getByText('Session 200', { exact: true }).waitFor();
		const row = main.getByRole('link', { name: /^Session 42\b/ });
		for (const fact of ['+41', 'check passes', 'opened #41', '$0.12'])
			assert.ok(await row.getByText(fact).isVisible(), fact);
	}
});

test('of 10,000 changed files those in view exist, and all can be reached', async () => {
	const patch = Array.from({ length: 10_000 }, (_, at) => {
		const name = `part${at % 100}/file${at}.js`;
		return `diff --git a/${name} b/${name}\nindex 1..2 100644\n--- a/${name}\n+++ b/${name}\n@@ -1,2 +1,2 @@\n-const a = ${at};\n+const a = ${at + 1};\n export {};\n@@ -50,1 +50,1 @@\n-b${at}\n+c${at}\n`;
	}).join('');
	const stand = await standIn({
		sessions: [listed(1)],
		logs: { [ID]: golden('fix') },
		answers: {
			[`/api/v1/sessions/${ID}/diff`]: {
				base: 'a'.repeat(40),
				insertions: 20_000,
				deletions: 20_000,
				files: [],
				patch,
			},
		},
	});
	const page = await open(`${stand.url}/s/${ID}/changes`);
	await page.getByText('10,000 files', { exact: false }).first().waitFor();
	await page.getByRole('region', { name: 'part0/file0.js', exact: true }).waitFor();
	const nodes = () => page.evaluate(() => document.querySelectorAll('*').length);
	assert.ok((await nodes()) < 4_000, `${await nodes()} elements`);

	// What is being written stays, wherever one goes meanwhile.
	await page.getByRole('button', { name: 'Comment on part0/file0.js' }).click();
	await page.getByLabel('Comment on part0/file0.js').last().fill('half a thought');
	await page.getByLabel('Search changed files').fill('file9999');
	await page.getByRole('button', { name: /file9999\.js/ }).click();
	const last = page.getByRole('region', { name: 'part99/file9999.js', exact: true });
	await last.getByRole('heading').and(page.locator(':focus')).waitFor();
	await last.getByText('c9999', { exact: true }).waitFor();
	assert.ok((await nodes()) < 4_000, `${await nodes()} elements`);
	await page.keyboard.press('[');
	await page.locator('[data-file="part98/file9998.js"]:focus').waitFor();
	// From change to change, over the border of a file; what is folded is left out.
	await page.getByRole('button', { name: 'Unfold part98/file9998.js' }).click();
	await page.keyboard.press('n');
	await page.locator('[data-hunk="part98/file9998.js"][data-at="0"]:focus').waitFor();
	await page.keyboard.press('n');
	await page.locator('[data-hunk="part98/file9998.js"][data-at="1"]:focus').waitFor();
	await page.keyboard.press('n');
	await page.locator('[data-hunk="part99/file9999.js"][data-at="0"]:focus').waitFor();
	await page.keyboard.press('p');
	await page.locator('[data-hunk="part98/file9998.js"][data-at="1"]:focus').waitFor();
	assert.equal(await page.getByLabel('Comment on part0/file0.js').last().inputValue(), 'half a thought');
	// In a box that is ticked nobody writes: keys go on.
	await page.getByLabel('Viewed part98/file9998.js').check();
	await page.keyboard.press(']');
	await page.locator('[data-file="part99/file9999.js"]:focus').waitFor();
	// The frame itself stays where it is.
	assert.equal(await page.evaluate(() => document.querySelector('#main').getBoundingClientRect().top), 0);
	assert.deepEqual(await barriers(page), []);

	// An address of a line in the middle of them.
	await page.goto(`${stand.url}/s/${ID}/changes?file=part0/file5000.js&line=50`);
	await page.locator('[data-line="part0/file5000.js:50"]').waitFor();
	const box = await page.locator('[data-line="part0/file5000.js:50"]').boundingBox();
	assert.ok(box.y > 100 && box.y < 800, `it is at ${box.y}`);
});

test('a change of 100,000 lines is shown piece by piece', async () => {
	const lines = Array.from({ length: 100_000 }, (_, at) => `+line ${at + 1}`).join('\n');
	const long = `+${'x'.repeat(1_000_000)}`;
	const patch = `diff --git a/big.txt b/big.txt\nnew file mode 100644\n--- /dev/null\n+++ b/big.txt\n@@ -0,0 +1,100000 @@\n${lines}\ndiff --git a/min.js b/min.js\nnew file mode 100644\n--- /dev/null\n+++ b/min.js\n@@ -0,0 +1 @@\n${long}\n`;
	const stand = await standIn({
		sessions: [listed(1)],
		logs: { [ID]: golden('fix') },
		answers: { [`/api/v1/sessions/${ID}/diff`]: { base: 'a', insertions: 1, deletions: 0, files: [], patch } },
	});
	const page = await open(`${stand.url}/s/${ID}/changes`);
	const big = page.getByRole('region', { name: 'big.txt', exact: true });
	await big.getByText('A large change of 100,000 lines.').waitFor();
	await page
		.getByRole('region', { name: 'min.js', exact: true })
		.getByText('and 996,000 more characters in this line')
		.waitFor();
	await big.getByRole('button', { name: 'Show it' }).click();
	await big.getByText('line 3000', { exact: true }).waitFor();
	await big.getByText('3,000 of 100,000 lines are shown.').waitFor();
	await big.getByRole('button', { name: 'Show 3,000 more' }).click();
	await big.getByText('line 6000', { exact: true }).waitFor();
	assert.equal(await big.getByText('line 6001', { exact: true }).count(), 0);
});

test('characters that turn text around or that nobody sees are shown, wherever they are', async () => {
	const evil = (text) => `${text}\u202egnp.\u2066exe\u200b\u{e0041}`;
	const log = logOf(ID);
	const turn = 'trn_1';
	log.put('session.created', {
		title: evil('title'),
		environment: 'shop',
		recipe: { repos: [] },
		model: 'main',
		budgets: { turn: {}, session: {} },
	});
	log.put('prompt.queued', { prompt: 'prm_1', text: evil('prompt') }, { kind: 'user', id: 'ana' });
	log.put('turn.started', { turn, prompt: 'prm_1' });
	const item = (id, more) => log.put('item.completed', { turn, item: { id, status: 'completed', ...more } });
	item('i1', { kind: 'prompt', prompt: 'prm_1', text: evil('prompt') });
	item('i2', { kind: 'reasoning', text: evil('thought') });
	item('i3', { kind: 'message', text: `**${evil('message')}** \`${evil('code')}\`` });
	item('i4', {
		kind: 'tool_call',
		status: 'failed',
		tool: 'shell',
		input: { command: evil('command') },
		output: { text: evil('output'), bytes: 9 },
		exit_code: 1,
	});
	item('i5', {
		kind: 'tool_call',
		status: 'failed',
		tool: 'edit',
		input: { path: evil('path'), old: evil('old'), new: evil('new') },
		output: { text: 'no', bytes: 2 },
	});
	item('i6', {
		kind: 'report',
		check: 'test',
		command: evil('npm test'),
		passed: false,
		report: {
			tests_failed: 1,
			tests: [{ name: evil('a test'), status: 'failed', file: evil('file'), line: 3, message: evil('why') }],
			diagnostics: [{ severity: 'error', message: evil('finding'), file: evil('file'), line: 3 }],
		},
	});
	log.put('plan.updated', { items: [{ text: evil('plan'), state: 'pending' }] });
	log.put('egress.decided', { host: evil('host'), port: 443, allowed: false, rule: 'none', connections: 1 });
	log.put('error.raised', { code: 'x', message: evil('error'), hint: evil('hint') });
	log.put('prompt.queued', { prompt: 'prm_2', text: evil('queued') }, { kind: 'user', id: 'ana' });
	log.put('approval.requested', {
		approval: 'apr_1',
		turn,
		question: evil('Run it?'),
		gate: 'call',
		call: { item: 'i7', tool: 'shell', input: { command: evil('rm') }, why: evil('because') },
		diff: { files: [{ path: evil('file'), insertions: 1, deletions: 0 }], count: 1, insertions: 1, deletions: 0 },
	});
	const name = evil('src/name');
	const patch = `diff --git a/${name} b/${name}\nnew file mode 100644\n--- /dev/null\n+++ b/${name}\n@@ -0,0 +1,2 @@ ${evil('in')}\n+${evil('line')}\n+done\n`;
	const stand = await standIn({
		sessions: [
			listed(1, {
				title: evil('title'),
				branch: evil('branch'),
				reason: evil('reason'),
				status: 'waiting',
				group: 'needs_you',
			}),
		],
		logs: { [ID]: log.lines },
		answers: {
			[`/api/v1/sessions/${ID}/diff`]: { base: 'a', insertions: 2, deletions: 0, files: [], patch },
			[`/api/v1/sessions/${ID}/events`]: () => ({ events: log.lines.map((line) => JSON.parse(line)), next: null }),
			[`/api/v1/sessions/${ID}/files`]: {
				path: '',
				entries: [{ name: evil('file'), kind: 'file', size: 1 }],
				truncated: false,
			},
		},
	});
	const page = await open(stand.url);
	const look = async (sign) => {
		await page.getByText(sign).first().waitFor();
		const text = await page.evaluate(() => {
			const said = [document.title, document.body.innerText];
			for (const element of document.querySelectorAll('[title], [aria-label], [alt]'))
				for (const attribute of ['title', 'aria-label', 'alt']) said.push(element.getAttribute(attribute) ?? '');
			return said.join('\n');
		});
		const found = /.*[\u200b\u202e\u2066\u{e0041}].*/u.exec(text);
		assert.equal(found?.[0], undefined, `hidden at ${page.url()}`);
	};
	await look(/title⟨U\+202E⟩gnp\.⟨U\+2066⟩exe⟨U\+200B⟩⟨U\+E0041⟩/);
	await page.goto(`${stand.url}/s/${ID}`);
	await page.getByRole('button', { name: /thought/ }).click();
	await look(/Run it\?⟨U\+202E⟩/);
	await page.getByLabel('Conversation').evaluate((list) => list.scrollTo(0, 0));
	await look(/prompt⟨U\+202E⟩/);
	await page.goto(`${stand.url}/s/${ID}/changes`);
	await look(/line⟨U\+202E⟩/);
	await page.getByText('hidden characters').waitFor();
	for (const tab of ['checks', 'files', 'events']) {
		await page.goto(`${stand.url}/s/${ID}/${tab}`);
		await look(tab === 'events' ? 'plan.updated' : /(a test|file)⟨U\+202E⟩/);
	}
	await page.keyboard.press('Control+k');
	await page
		.getByRole('dialog', { name: 'Find anything' })
		.getByText(/title⟨U\+202E⟩/)
		.waitFor();
	await look(/title⟨U\+202E⟩/);
});

test('while a log is read its middle is not shown as if it were now', async () => {
	const stand = await standIn({
		sessions: [listed(1, { seq: 31 })],
		logs: { [ID]: golden('approve') },
		// At this line somebody was asked for something that was answered long ago.
		stalls: { [ID]: 11 },
	});
	const page = await open(`${stand.url}/s/${ID}`);
	await page.getByText("Reading the session's log: 11 of 31 events").waitFor();
	const header = page.locator('#main header').first();
	await header.getByText('done', { exact: true }).waitFor();
	assert.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0);
	stand.goOn();
	await page.getByRole('region', { name: 'Result' }).waitFor();
	await header.getByText('done', { exact: true }).waitFor();
});

test('what came since one looked is marked, however slowly the log comes', async () => {
	const lines = golden('stop');
	const stand = await standIn({
		sessions: [listed(1, { seq: lines.length })],
		logs: { [ID]: lines },
		stalls: { [ID]: 5 },
	});
	const page = await open(`${stand.url}/settings/browser`);
	await page.evaluate((id) => localStorage.setItem('slipway.seen', JSON.stringify({ [id]: 9 })), ID);
	await page.goto(`${stand.url}/s/${ID}`);
	await page
		.getByText(/log: 5 of/)
		.or(page.getByLabel('Conversation').getByText('Please run something long'))
		.waitFor();
	stand.goOn();
	await page.getByText(/Since you looked: \d+ events/).waitFor();
});

test('the sheets of a phone keep the focus, close with Escape and give it back', async () => {
	const stand = await standIn({ sessions: [listed(1)], logs: { [ID]: golden('fix') } });
	const page = await open(`${stand.url}/s/${ID}`, { phone: true });
	await page.getByRole('region', { name: 'Result' }).waitFor();
	for (const [button, sheet] of [
		['Menu', 'Menu'],
		['Show the details', 'Details'],
	]) {
		await page.getByRole('button', { name: button, exact: true }).focus();
		await page.keyboard.press('Enter');
		const dialog = page.getByRole('dialog', { name: sheet });
		await dialog.waitFor();
		assert.deepEqual(await barriers(page), []);
		for (let tabs = 0; tabs < 40; tabs += 1) {
			await page.keyboard.press('Tab');
			const out = await page.evaluate(() => {
				const at = document.activeElement;
				return at !== document.body && at?.closest('dialog') === null ? at.outerHTML : null;
			});
			assert.equal(out, null, 'the focus left the sheet');
		}
		await page.keyboard.press('Escape');
		await dialog.waitFor({ state: 'detached' });
		await page.locator(`button[aria-label="${button}"]:focus`).waitFor();
	}
});

test('what a finger must hit is large enough, on every page of a phone', async () => {
	const stand = await standIn({
		sessions: [
			listed(1),
			listed(2, { authors: [{ name: 'ben', prompts: 1, last_prompt_at: '2026-11-01T10:00:00Z' }] }),
		],
		logs: { [ID]: golden('fix') },
		answers: {
			'/api/v1/environments': {
				environments: [{ name: 'shop', source: 'stored', repos: [{ url: '/srv/shop.git' }], checks: [] }],
			},
			'/api/v1/models': { models: [{ name: 'main', provider: 'anthropic', model: 'm', key: true }] },
			[`/api/v1/sessions/${ID}/diff`]: {
				base: 'a',
				insertions: 1,
				deletions: 0,
				files: [],
				patch: 'diff --git a/a.js b/a.js\n--- a/a.js\n+++ b/a.js\n@@ -1 +1 @@\n-a\n+b\n',
			},
			'/api/v1/environments/shop/image': { state: 'none', steps: [] },
			'/api/v1/environments/shop/egress': { egress: ['a.example.com'], refused: [] },
			'/api/v1/secrets': { secrets: [] },
			[`/api/v1/sessions/${ID}/files`]: {
				path: 'src/deep',
				entries: [{ name: 'a.js', kind: 'file', size: 1 }],
				truncated: false,
			},
		},
	});
	const page = await open(stand.url, { phone: true });
	const small = [];
	for (const path of [
		'/',
		'/new',
		`/s/${ID}`,
		`/s/${ID}/changes`,
		`/s/${ID}/checks`,
		`/s/${ID}/files?path=src/deep`,
		'/environments',
		'/environments/shop/network',
		'/environments/shop/recipe',
		'/settings',
		'/settings/browser',
		'/settings/tokens',
	]) {
		await page.goto(stand.url + path);
		await page.waitForLoadState('networkidle');
		small.push(
			...(await page.evaluate((where) => {
				for (const folded of document.querySelectorAll('[aria-label=Conversation] button[aria-expanded=false]'))
					folded.click();
				const all = [...document.querySelectorAll('a[href], button, select, input, textarea, summary, [role=radio]')];
				// A link in the middle of a sentence is as high as its line, as in any text; a box has its label around it.
				const inSentence = (one) =>
					one.matches('p a, .prose a') && one.closest('p, .prose').textContent.trim() !== one.textContent.trim();
				return all
					.filter((one) => one.checkVisibility() && !one.closest('.sr-only') && !inSentence(one))
					.map((one) => (one.type === 'checkbox' ? (one.closest('label') ?? one) : one))
					.map((one) => [one, one.getBoundingClientRect()])
					.filter(([, box]) => box.height > 1 && (box.height < 43.5 || box.width < 43.5))
					.map(
						([one, box]) =>
							`${where}: ${one.outerHTML.slice(0, 160)} is ${Math.round(box.width)} by ${Math.round(box.height)} px`,
					);
			}, path)),
		);
	}
	assert.deepEqual(small, []);
});

test('keys choose among a few, as with other radio buttons', async () => {
	const stand = await standIn({});
	const page = await open(`${stand.url}/settings/browser`);
	const radio = (name) => page.getByRole('radio', { name });
	await radio('As the system is').focus();
	await page.keyboard.press('ArrowRight');
	await page.locator('[role=radio][aria-checked=true]:focus', { hasText: 'Light' }).waitFor();
	await page.keyboard.press('ArrowRight');
	assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
	await page.keyboard.press('Tab');
	assert.equal(
		await page.evaluate(() => document.activeElement?.getAttribute('role')),
		null,
		'one stop for all of them',
	);
});

test('while one searches what was found before stays in view', async () => {
	const sessions = [listed(1), listed(2)];
	let answer;
	const held = new Promise((done) => {
		answer = done;
	});
	const stand = await standIn({
		sessions,
		answers: {
			'/api/v1/sessions': async (address) => {
				const q = address.searchParams.get('q');
				if (q) await held;
				return { sessions: q ? [sessions[1]] : sessions, counts: { needs_you: 0, working: 0, finished: 2 } };
			},
		},
	});
	const page = await open(stand.url);
	const main = page.locator('#main');
	await main.getByText('Session 1', { exact: true }).waitFor();
	await page.getByLabel('Search sessions').fill('two');
	await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
	assert.ok(await main.getByText('Session 1', { exact: true }).isVisible());
	answer();
	await main.getByText('Session 1', { exact: true }).waitFor({ state: 'detached' });
	await main.getByText('Session 2', { exact: true }).waitFor();
});

test('a failed session says what can be done, and a retry how often and why', async () => {
	const failed = golden('retry').slice(0, 6);
	const turn = JSON.parse(failed[2]).data.turn;
	const put = (type, data) =>
		failed.push(
			JSON.stringify({
				v: 1,
				session: ID,
				seq: failed.length + 1,
				id: 'e',
				at: '2026-11-18T10:00:00Z',
				actor: { kind: 'system', id: 'slipway' },
				type,
				data,
			}),
		);
	put('error.raised', {
		code: 'model_auth',
		message: 'The model server refused the key',
		hint: 'Set MODEL_KEY to a good one.',
	});
	put('turn.finished', {
		turn,
		outcome: 'failed',
		reason: 'The model server refused the key',
		receipt: {
			steps: 0,
			tools_completed: 0,
			tools_skipped: 0,
			files_changed: 0,
			insertions: 0,
			deletions: 0,
			spend: noSpend,
			duration_ms: 10,
		},
	});
	const waits = listed(2).id;
	const retry = golden('retry')
		.slice(0, 6)
		.map((line) => JSON.stringify({ ...JSON.parse(line), session: waits }));
	const stand = await standIn({ sessions: [listed(1), listed(2)], logs: { [ID]: failed, [waits]: retry } });
	const page = await open(`${stand.url}/s/${ID}`);
	const result = page.getByRole('region', { name: 'Result' });
	await result.getByText('Set MODEL_KEY to a good one.').waitFor();
	await page.goto(`${stand.url}/s/${waits}`);
	await page
		.getByText('Waiting for the model, try 2 of 6: the model server has too much to do', { exact: true })
		.waitFor();
});

test('what finished since this browser first had the app is new until it was opened, and nothing from before', async () => {
	const old = listed(1);
	const fresh = listed(2, { seq: golden('fix').length, updated_at: new Date(Date.now() + 60_000).toISOString() });
	const spent = listed(3, { status: 'out_of_budget', group: 'needs_you' });
	const stand = await standIn({ sessions: [spent, fresh, old], logs: { [fresh.id]: golden('fix', fresh.id) } });
	const page = await open(stand.url);
	const main = page.locator('#main');
	const isNew = (number) =>
		main.getByRole('link', { name: new RegExp(`^Session ${number}`) }).getByText('new', { exact: true });
	await isNew(2).waitFor();
	assert.deepEqual([await isNew(1).count(), await isNew(3).count()], [0, 1]);
	await main.getByRole('link', { name: /^Session 2/ }).focus();
	await page.keyboard.press('Enter');
	await page.getByRole('region', { name: 'Result' }).waitFor();
	// The link is gone with its page; whoever goes on with the keyboard goes on in the one that came.
	await page.locator('#main:focus').waitFor();
	await page.getByRole('link', { name: 'Sessions', exact: true }).click();
	await main.getByRole('link', { name: /^Session 2/ }).waitFor();
	await isNew(2).waitFor({ state: 'detached' });
});

test('the palette shows the pull request before a branch is delivered', async () => {
	const stand = await standIn({
		sessions: [listed(1)],
		logs: { [ID]: golden('approve').slice(0, 24) },
		answers: {
			[`/api/v1/sessions/${ID}/diff`]: {
				base: 'a',
				insertions: 1,
				deletions: 0,
				files: [],
				patch: 'diff --git a/a.js b/a.js\n--- a/a.js\n+++ b/a.js\n@@ -1 +1 @@\n-a\n+b\n',
			},
			[`/api/v1/sessions/${ID}/delivery`]: {
				branch: 'b',
				base: 'main',
				remote: 'r',
				title: 'The title',
				body: 'The body',
				pull_request: true,
			},
		},
	});
	const page = await open(`${stand.url}/s/${ID}`);
	await page.getByLabel('Conversation').waitFor();
	await page.keyboard.press('Control+k');
	await page.getByPlaceholder('A session, a page, or what to do').fill('deliver the branch');
	await page.keyboard.press('Enter');
	const dialog = page.getByRole('dialog', { name: 'Delivery' });
	await dialog.getByRole('heading', { name: 'The title' }).waitFor();
	await page.keyboard.press('Escape');
	await dialog.waitFor({ state: 'detached' });
	await page.waitForURL((url) => !url.search.includes('deliver'));
	assert.deepEqual(stand.asked, [], 'nothing was delivered by that');
});

test('pieces of text are drawn once per frame, however many come', async () => {
	const log = golden('stop').slice(0, 4);
	const turn = JSON.parse(log[2]).data.turn;
	const item = { id: 'itm_live', kind: 'message', status: 'started', text: '' };
	log.push(
		JSON.stringify({
			v: 1,
			session: ID,
			seq: 5,
			id: 'e',
			at: '2026-11-18T10:00:00Z',
			actor: { kind: 'agent', id: 'main' },
			type: 'item.started',
			data: { turn, item },
		}),
	);
	const stand = await standIn({ sessions: [listed(1, { status: 'working', group: 'working' })], logs: { [ID]: log } });
	const page = await open(`${stand.url}/s/${ID}`);
	await page.getByText('Writing', { exact: true }).waitFor();
	await page.evaluate(() => {
		window.__frames = 0;
		window.__drawn = new Set();
		const count = () => {
			window.__frames += 1;
			requestAnimationFrame(count);
		};
		requestAnimationFrame(count);
		const list = document.querySelector('[aria-label=Conversation]');
		window.__changes = 0;
		new MutationObserver(() => {
			window.__changes += 1;
			window.__drawn.add(window.__frames);
		}).observe(list, { subtree: true, characterData: true, childList: true });
	});
	let offset = 0;
	for (let at = 0; at < 2_000; at += 1) {
		const text = `word${at} `;
		stand.tell(ID, { type: 'delta', data: { item: 'itm_live', channel: 'text', offset, text } });
		offset += text.length;
		// They come in many messages and over many frames.
		if (at % 100 === 99) await page.evaluate(() => new Promise(requestAnimationFrame));
	}
	await page.getByText('word1999').waitFor();
	const { changes, frames } = await page.evaluate(() => ({ changes: window.__changes, frames: window.__drawn.size }));
	// What is drawn makes lists measure again, which may change them once more in the same frame.
	assert.ok(changes <= frames * 3, `${changes} changes in ${frames} frames`);
	assert.ok(changes < 500, `${changes} changes for 2,000 pieces`);
});

test('where there is no environment yet, one is made from the page that wants one', async () => {
	const stand = await standIn({});
	const page = await open(`${stand.url}/new`);
	await page.getByRole('link', { name: 'Make one here' }).click();
	const dialog = page.getByRole('dialog', { name: /environment/i });
	await dialog.getByLabel('Repository').waitFor();
	await page.keyboard.press('Escape');
	await dialog.waitFor({ state: 'detached' });
	await page.locator('#main').getByRole('button', { name: 'Make one' }).click();
	await dialog.getByLabel('Repository').waitFor();
	assert.deepEqual(await barriers(page), []);
});

test('who scrolls away while text comes stays where one is, and is told what came', async () => {
	const log = logOf(ID);
	const turn = 'trn_1';
	log.put('session.created', { title: 'It writes', environment: 'shop', recipe: { repos: [] }, model: 'main' });
	log.put('prompt.queued', { prompt: 'prm_1', text: 'Write much' }, { kind: 'user', id: 'ana' });
	log.put('turn.started', { turn, prompt: 'prm_1' });
	for (let at = 0; at < 60; at += 1) {
		// Of many heights, so that what comes into view must be measured first.
		const text = Array.from({ length: 1 + ((at * 7) % 11) }, (_, line) => `Paragraph ${at}.${line}`).join('\n\n');
		log.put('item.completed', { turn, item: { id: `itm_${at}`, kind: 'message', status: 'completed', text } });
	}
	log.put('item.started', { turn, item: { id: 'itm_live', kind: 'message', status: 'in_progress', text: '' } });
	const stand = await standIn({
		sessions: [listed(1, { status: 'working', group: 'working' })],
		logs: { [ID]: log.lines },
	});
	const page = await open(`${stand.url}/s/${ID}`);
	await page.getByText('Paragraph 59.0').waitFor();
	let offset = 0;
	const write = async (frames) => {
		for (let at = 0; at < frames; at += 1) {
			const text = `word${offset} ${at % 10 === 9 ? '\n\n' : ''}`;
			stand.tell(ID, { type: 'delta', data: { item: 'itm_live', channel: 'text', offset, text } });
			offset += text.length;
			await page.evaluate(() => new Promise(requestAnimationFrame));
		}
	};
	const fromEnd = () =>
		page.getByLabel('Conversation').evaluate((list) => list.scrollHeight - list.scrollTop - list.clientHeight);
	await write(40);
	assert.ok((await fromEnd()) < 48, `the newest line is ${await fromEnd()} px below what is in view`);
	const writing = write(60);
	await page.getByLabel('Conversation').hover();
	await page.mouse.wheel(0, -900);
	await writing;
	assert.ok((await fromEnd()) > 600, `thrown back to ${await fromEnd()} px from the end`);
	// Something that counts comes, and the way back says so.
	stand.tell(ID, log.put('plan.updated', { items: [{ text: 'Go on', state: 'in_progress' }] }));
	await page.getByRole('button', { name: /Jump to live · 1 new/ }).click();
	await write(20);
	assert.ok((await fromEnd()) < 48, `the newest line is ${await fromEnd()} px below what is in view`);

	// Also whoever goes to the beginning in the instant in which the turn ends and its result comes in there.
	stand.tell(
		ID,
		log.put('item.completed', {
			turn,
			item: { id: 'itm_live', kind: 'message', status: 'completed', text: 'The end.' },
		}),
	);
	const receipt = {
		steps: 1,
		tools_completed: 0,
		tools_skipped: 0,
		files_changed: 0,
		insertions: 0,
		deletions: 0,
		spend: noSpend,
		duration_ms: 10,
	};
	stand.tell(ID, log.put('turn.finished', { turn, outcome: 'done', receipt }));
	await page.locator('#main header').first().getByText('done', { exact: true }).waitFor();
	const top = await page.getByLabel('Conversation').evaluate(async (list) => {
		list.scrollTo(0, 0);
		const until = performance.now() + 700;
		while (performance.now() < until) await new Promise(requestAnimationFrame);
		return list.scrollTop;
	});
	assert.equal(top, 0, 'thrown back to the end');
	await page.getByRole('region', { name: 'Result' }).waitFor();
});
