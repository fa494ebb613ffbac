// What is shown and done is what is so: with a stand-in for the server, which says what each case needs.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { barriers, startBrowser } from '../support/browser.mjs';
import { listed, logOf, startStandIn } from '../support/stand-in.mjs';

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
const diff = (patch) => ({ base: 'a'.repeat(40), insertions: 1, deletions: 1, files: [], patch });
const environment = (more = {}) => ({ name: 'shop', source: 'stored', repos: [{ url: '/srv/shop.git' }], ...more });

/** The log of a session that works on its first prompt. */
function working(more = () => {}) {
	const log = logOf(ID, Date.now() - 5_000);
	log.put('session.created', {
		title: 'It works',
		environment: 'shop',
		recipe: { repos: [] },
		model: 'main',
		budgets: { session: { usd: 2, tokens: 500_000 }, turn: { tokens: 100_000, steps: 40, seconds: 600 } },
	});
	log.put('prompt.queued', { prompt: 'prm_1', text: 'Do it' }, { kind: 'user', id: 'ana' });
	log.put('turn.started', { turn: 'trn_1', prompt: 'prm_1' });
	more(log);
	return log.lines;
}

test('keys act on the session that has the focus, wherever the list moved it', async () => {
	const sessions = [1, 2, 3, 4].map((number) => listed(number));
	let archived = [];
	const stand = await standIn({
		sessions,
		answers: {
			'/api/v1/sessions': () => ({ sessions, counts: { needs_you: 0, working: 0, finished: sessions.length } }),
			...Object.fromEntries(
				sessions.map(({ id }) => [
					`PATCH /api/v1/sessions/${id}`,
					(_, body) => {
						archived.push(id);
						return { ...listed(1), id, archived: body.archived };
					},
				]),
			),
		},
	});
	const page = await open(stand.url);
	const row = (number) => page.locator(`#row-${listed(number).id}`);
	await row(4).waitFor();
	// With Tab, and not by the keys, one comes to the third row.
	await row(3).focus();
	await page.keyboard.press('j');
	await page.locator(`#row-${listed(4).id}:focus`).waitFor();
	await page.keyboard.press('k');
	await page.locator(`#row-${listed(3).id}:focus`).waitFor();
	// Another session comes in above: the one with the focus is still the one that is meant.
	sessions.unshift(listed(9));
	stand.tell(ID, { type: 'sessions', data: {} });
	await page.evaluate(() => window.dispatchEvent(new Event('visibilitychange')));
	await page.locator(`#row-${listed(9).id}`).waitFor({ timeout: 40_000 });
	await page.keyboard.press('e');
	await page.waitForTimeout(300);
	assert.deepEqual(archived, [listed(3).id]);
	archived = [];
	await row(1).focus();
	await page.keyboard.press('e');
	await page.waitForTimeout(300);
	assert.deepEqual(archived, [listed(1).id]);
});

test('a child says whose it is where its parent stands elsewhere, and the parent how its children are', async () => {
	const parent = listed(1, { title: 'The whole', turn_ms: 30_000 });
	const child = listed(2, { title: 'A part', parent: parent.id, status: 'working', group: 'working' });
	const second = listed(3, { title: 'Another part', parent: parent.id });
	const stand = await standIn({ sessions: [child, parent, second] });
	const page = await open(stand.url);
	const main = page.locator('#main');
	await main
		.getByRole('link', { name: /^A part/ })
		.getByText('part of “The whole”')
		.waitFor();
	await main
		.getByRole('link', { name: /^The whole/ })
		.getByText('1 child works')
		.waitFor();
	// Below its parent it is a step to the right, and needs no words.
	const left = (name) =>
		main
			.getByRole('link', { name })
			.locator('xpath=..')
			.evaluate((row) => getComputedStyle(row).paddingLeft);
	assert.equal(await left(/^Another part/), '20px');
	assert.equal(
		await main
			.getByRole('link', { name: /^Another part/ })
			.getByText('part of')
			.count(),
		0,
	);
	// How long its last turn took, beside how long ago that was.
	assert.match(await main.getByRole('link', { name: /^The whole/ }).innerText(), /30 s ·/);
	assert.deepEqual(await barriers(page), []);
});

test('letters that are typed into a menu do nothing else', async () => {
	const stand = await standIn({
		sessions: [listed(1, { status: 'working', group: 'working' })],
		logs: { [ID]: working() },
		answers: { '/api/v1/models': { models: [{ name: 'main', provider: 'x', model: 'm', key: true }] } },
	});
	const page = await open(`${stand.url}/s/${ID}`);
	await page.getByRole('button', { name: 'Model: main' }).focus();
	await page.keyboard.press('Enter');
	await page.getByRole('menu').waitFor();
	for (const key of ['s', 'c', 'e', '?', '2']) await page.keyboard.press(key);
	await page.waitForTimeout(200);
	assert.equal(await page.getByRole('dialog').count(), 0);
	assert.ok(page.url().endsWith(`/s/${ID}`), page.url());
	assert.deepEqual(stand.asked, []);
	await page.keyboard.press('Escape');
	await page.getByRole('menu').waitFor({ state: 'detached' });
	await page.getByRole('button', { name: 'More', exact: true }).focus();
	await page.keyboard.press('Enter');
	await page.getByRole('menu').waitFor();
	for (const key of ['c', 'e']) await page.keyboard.press(key);
	await page.waitForTimeout(200);
	assert.ok(page.url().endsWith(`/s/${ID}`), page.url());
	assert.deepEqual(stand.asked, []);
});

test('a turn is stopped, and a follow-up begun, from every part of the session', async () => {
	const stand = await standIn({
		sessions: [listed(1, { status: 'working', group: 'working' })],
		logs: { [ID]: working() },
		answers: { [`/api/v1/sessions/${ID}/diff`]: diff('') },
	});
	const page = await open(`${stand.url}/s/${ID}/changes`);
	await page.getByText('Nothing changed yet').waitFor();
	await page.keyboard.press('s');
	const dialog = page.getByRole('dialog', { name: 'Stop the turn' });
	await dialog.getByText('What runs in the sandbox is ended.').waitFor();
	await page.keyboard.press('Escape');
	await dialog.waitFor({ state: 'detached' });
	await page.locator('#main header').getByRole('button', { name: 'Stop', exact: true }).click();
	await dialog.waitFor();
	await page.keyboard.press('Escape');
	await dialog.waitFor({ state: 'detached' });
	await page.keyboard.press('i');
	await page.locator('#composer:focus').waitFor();
	assert.deepEqual(await barriers(page), []);
});

const PATCH = `diff --git a/a.js b/a.js
--- a/a.js
+++ b/a.js
@@ -1,3 +1,4 @@
 one
-two
+zwei
+drei
 four
diff --git a/end.txt b/end.txt
--- a/end.txt
+++ b/end.txt
@@ -1 +1 @@
-last
+last
\\ No newline at end of file
`;

test('a line is commented on with the keyboard alone, and with a finger', async () => {
	const what = {
		sessions: [listed(1)],
		logs: { [ID]: working() },
		answers: { [`/api/v1/sessions/${ID}/diff`]: diff(PATCH) },
	};
	const stand = await standIn(what);
	for (const look of ['Unified', 'Split']) {
		const page = await open(`${stand.url}/s/${ID}/changes`);
		await page.getByRole('radio', { name: look }).click();
		await page.getByRole('region', { name: 'a.js', exact: true }).waitFor();
		await page.keyboard.press('n');
		await page.locator('[data-hunk="a.js"]:focus').waitFor();
		// The first line, then those that were taken out and put in.
		for (let step = 0; step < (look === 'Split' ? 2 : 3); step += 1) await page.keyboard.press('ArrowDown');
		assert.match(await page.evaluate(() => document.activeElement.textContent), /zwei/);
		await page.keyboard.press('m');
		await page.getByRole('textbox', { name: /^Comment on .*2/ }).waitFor();
		await page.keyboard.type('Why not deux?');
		assert.deepEqual(await barriers(page), []);
	}
	const phone = await open(`${stand.url}/s/${ID}/changes`, { phone: true });
	const file = phone.getByRole('region', { name: 'a.js', exact: true });
	await file.getByText('zwei').tap();
	const button = file.getByRole('button', { name: /^Comment on line 2/ });
	await button.waitFor();
	await file.getByRole('button', { name: 'The line after' }).tap();
	const third = file.getByRole('button', { name: /^Comment on line 3/ });
	const box = await third.boundingBox();
	assert.ok(box.height >= 44, `${box.height} px`);
	await third.tap();
	await phone.getByRole('textbox', { name: /^Comment on .*3/ }).waitFor();
	assert.deepEqual(await barriers(phone), []);
});

test('a change of the last end of line only can be seen', async () => {
	const stand = await standIn({
		sessions: [listed(1)],
		logs: { [ID]: working() },
		answers: { [`/api/v1/sessions/${ID}/diff`]: diff(PATCH) },
	});
	const page = await open(`${stand.url}/s/${ID}/changes`);
	const file = page.getByRole('region', { name: 'end.txt', exact: true });
	await file.getByText('no newline at the end of the file').waitFor();
	assert.equal(await file.getByText('no newline at the end of the file').count(), 1);
});

test('every limit is shown with what is used of it', async () => {
	const usage = { input: 40_000, cache_read: 30_000, cache_write: 0, output: 9_000, reasoning: 1_000 };
	const lines = working((log) =>
		log.put('usage.recorded', {
			turn: 'trn_1',
			step: 3,
			model: 'main',
			usage,
			cost_usd: 0.5,
			first_token_ms: 1,
			duration_ms: 2,
		}),
	);
	const used = { usd: 0.5, tokens: 80_000, seconds: 90, steps: 3 };
	const stand = await standIn({
		sessions: [listed(1, { status: 'working', group: 'working', used: { turn: used, session: used } })],
		logs: { [ID]: lines },
	});
	const page = await open(`${stand.url}/s/${ID}`);
	const details = page.getByRole('complementary', { name: 'Details' });
	for (const text of [
		'$0.50 of $2.00',
		'80k tokens of 500k tokens',
		'this turn 80k tokens of 100k tokens',
		'this turn 1 m 30 s of 10 m',
		'this turn 3 steps of 40 steps',
	])
		await details.getByText(text).first().waitFor();
	const meter = details.getByRole('meter', { name: 'Tokens used', exact: true });
	assert.deepEqual(
		[await meter.getAttribute('aria-valuenow'), await meter.getAttribute('aria-valuemax')],
		['80000', '500000'],
	);
	assert.equal(await details.getByRole('meter').count(), 5);
	assert.deepEqual(await barriers(page), []);
});

test('a sandbox is said to be ready when one is', async () => {
	const path = '/api/v1/environments/shop';
	let image = { state: 'none', steps: [], warm: 0 };
	let asked = 0;
	const stand = await standIn({
		answers: {
			'/api/v1/environments': { environments: [environment()] },
			[`${path}/image`]: () => image,
			[`POST ${path}/warm`]: () => {
				asked += 1;
				if (asked === 1)
					image = {
						state: 'building',
						warm: 0,
						steps: [
							{ title: 'base', kind: 'base', state: 'cached' },
							{ title: 'sleep 88', kind: 'setup', state: 'running' },
						],
					};
				return { ready: image.warm, starting: image.state === 'ready' ? 1 - image.warm : 0 };
			},
		},
	});
	const page = await open(`${stand.url}/new?environment=shop`);
	await page.getByLabel('What is to be done').pressSequentially('x');
	await page.getByText('The image of this environment is being built: step 2 of 2, sleep 88').waitFor();
	assert.equal(await page.getByText('Sandbox ready').count(), 0);
	image = { state: 'ready', steps: [], warm: 0 };
	await page.getByText('A sandbox is starting').waitFor();
	assert.ok(asked > 1, 'it is asked for again once there is an image');
	image = { state: 'ready', steps: [], warm: 1 };
	await page.getByText('Sandbox ready').waitFor();
});

test('an environment of the configuration file says which lines allow what was refused', async () => {
	const stand = await standIn({
		answers: {
			'/api/v1/environments': { environments: [environment({ source: 'config', egress: ['a.example.com'] })] },
			'/api/v1/environments/shop/egress': {
				egress: ['a.example.com'],
				refused: [{ host: 'b.example.com', port: 8443, reason: 'no rule', count: 2, last_at: '2026-11-01T10:00:00Z' }],
			},
		},
	});
	const page = await open(`${stand.url}/environments/shop/network`);
	await page.getByRole('button', { name: /^Add to the lines above/ }).click();
	await page.getByText('egress = ["a.example.com", "b.example.com:8443"]').waitFor();
	await page.getByText('[environments.shop]').waitFor();
	await page.getByRole('button', { name: 'Copy' }).waitFor();
	assert.deepEqual(await barriers(page), []);
	assert.deepEqual(stand.asked, []);
});

test('a question without answers to choose from is come to with its key', async () => {
	const lines = working((log) =>
		log.put('approval.requested', {
			approval: 'apr_1',
			turn: 'trn_1',
			question: 'What is it to be called?',
			gate: 'question',
			call: { item: 'i1', tool: 'ask', input: { question: 'What is it to be called?' }, why: 'the agent asks' },
		}),
	);
	const stand = await standIn({
		sessions: [listed(1, { status: 'waiting', group: 'needs_you' })],
		logs: { [ID]: lines },
	});
	const page = await open(`${stand.url}/s/${ID}`);
	await page.getByText('What is it to be called?').first().waitFor();
	await page.keyboard.press('a');
	await page.locator('input[aria-label="Your answer"]:focus').waitFor();
});

test('a call that waits is shown as the server says it changes the files', async () => {
	const lines = working((log) =>
		log.put('approval.requested', {
			approval: 'apr_1',
			turn: 'trn_1',
			question: 'Run apply_patch a.js? (ask)',
			gate: 'call',
			call: {
				item: 'i1',
				tool: 'apply_patch',
				input: { patch: '*** Begin Patch\n*** Update File: a.js\n@@\n-two\n+zwei\n*** End Patch' },
				why: 'ask',
				diff: PATCH,
			},
		}),
	);
	const stand = await standIn({
		sessions: [listed(1, { status: 'waiting', group: 'needs_you' })],
		logs: { [ID]: lines },
	});
	for (const how of [{}, { phone: true }]) {
		const page = await open(`${stand.url}/s/${ID}`, how);
		const card = page.getByRole('region', { name: 'Needs your decision' });
		await card.getByText('drei').waitFor();
		await card.getByText('a.js', { exact: true }).waitFor();
		await card.getByText('line 1', { exact: true }).first().waitFor();
		assert.equal(await card.getByText('Begin Patch').count(), 0);
		assert.deepEqual(await barriers(page), []);
	}
});

test('a patch in the conversation is drawn as what it changes', async () => {
	const patch = '*** Begin Patch\n*** Update File: src/a.js\n@@\n same\n-two\n+zwei\n*** End Patch';
	const lines = working((log) =>
		log.put('item.completed', {
			turn: 'trn_1',
			item: {
				id: 'i1',
				kind: 'tool_call',
				status: 'completed',
				call_id: 'c',
				tool: 'apply_patch',
				input: { patch },
				output: { text: 'Changed src/a.js.', bytes: 17 },
			},
		}),
	);
	const stand = await standIn({ sessions: [listed(1)], logs: { [ID]: lines } });
	const page = await open(`${stand.url}/s/${ID}`);
	await page.getByRole('button', { name: /patched src\/a\.js/ }).click();
	await page.getByRole('group', { name: 'Changed lines' }).getByText('zwei').waitFor();
	assert.equal(await page.getByText('Begin Patch').count(), 0);
});

test('all of the end of what a check printed can be had', async () => {
	const tail = Array.from({ length: 200 }, (_, at) => `line ${at} of the output`).join('\n');
	const report = {
		id: 'i1',
		kind: 'report',
		status: 'failed',
		check: 'test',
		command: 'make test',
		passed: false,
		report: { tail },
	};
	const lines = working((log) => log.put('item.completed', { turn: 'trn_1', item: report }));
	const stand = await standIn({
		sessions: [listed(1)],
		logs: { [ID]: lines },
		answers: {
			[`/api/v1/sessions/${ID}/events`]: () => ({ events: [JSON.parse(lines.at(-1))], next: null }),
		},
	});
	const page = await open(`${stand.url}/s/${ID}/checks`);
	await page.getByText('The end of its output').click();
	await page.getByText('line 100 of the output').waitFor();
});
