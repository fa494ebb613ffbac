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

test('what is typed after Ctrl K is looked for, and / leads to the search from everywhere', async () => {
	const stand = await standIn({ sessions: [listed(1), listed(2)], logs: { [ID]: working() } });
	const page = await open(`${stand.url}/statistics`);
	await page.getByRole('heading', { name: 'Statistics' }).waitFor();
	// All parts of the app are here.
	await page.waitForLoadState('networkidle');
	await page.keyboard.press('Control+k');
	await page.keyboard.type('Session 2');
	const field = page.getByPlaceholder('A session, a page, or what to do');
	assert.equal(await field.inputValue(), 'Session 2');
	await page.keyboard.press('Enter');
	await page.waitForURL(`**/s/${listed(2).id}`);
	for (const path of ['/statistics', '/settings/browser', `/s/${ID}`]) {
		await page.goto(stand.url + path);
		await page.locator('#main:focus, #main h1').first().waitFor();
		await page.keyboard.press('/');
		await page.locator('#search:focus').waitFor();
		assert.equal(new URL(page.url()).pathname, '/');
	}
	// Where one is already, the list stays as it was filtered.
	await page.goto(`${stand.url}/?environment=gone`);
	await page.getByText('No session fits').waitFor();
	await page.keyboard.press('/');
	await page.locator('#search:focus').waitFor();
	assert.match(page.url(), /environment=gone/);
});

test('a filter of an address that names nothing says so, and all can be shown', async () => {
	const sessions = [listed(1), listed(2)];
	const stand = await standIn({ sessions, answers: { '/api/v1/environments': { environments: [environment()] } } });
	const page = await open(`${stand.url}/?environment=gone`);
	await page.getByText('No session fits').waitFor();
	assert.equal(await page.getByLabel('Environment').inputValue(), 'gone');
	await page.getByRole('button', { name: 'Show all' }).click();
	await page.locator(`#row-${listed(2).id}`).waitFor();
	assert.equal(new URL(page.url()).search, '');
	// A session is not begun elsewhere without a word.
	await page.goto(`${stand.url}/new?environment=gone`);
	await page.getByText('There is no environment gone here: this begins in shop').waitFor();
});

test('on a phone a prompt can be read while it is on its way, and one that was refused is not said to be', async () => {
	const kept = (key, more) => {
		const one = { key, session: ID, now: false, at: 1, error: null, prompt: null, state: 'waits', ...more };
		return [`slipway.pending.${key}`, JSON.stringify(one)];
	};
	const all = [
		kept('k1', { text: 'Please look at the cart once more, it is still off by one cent' }),
		kept('k2', { text: 'And at the other one', state: 'failed', error: 'The prompt is too long for the model' }),
	];
	const stand = await standIn({
		sessions: [listed(1, { status: 'working', group: 'working' })],
		logs: { [ID]: working() },
		answers: { [`POST /api/v1/sessions/${ID}/prompts`]: { status: 429, code: 'later', title: 'later' } },
	});
	const page = await browser.page({ phone: true });
	page.setDefaultTimeout(20_000);
	ends.push(() => page.context().close());
	await page.addInitScript((values) => {
		for (const [name, value] of values) localStorage.setItem(name, value);
	}, all);
	await page.goto(`${stand.url}/s/${ID}`);
	const queue = page.getByRole('region', { name: 'Queue' });
	await queue.getByText('1 on the way, 1 not taken').waitFor();
	for (const text of ['Please look at the cart', 'And at the other one']) {
		const box = await queue.getByText(text).boundingBox();
		assert.ok(box.width > 250, `${text}: ${box.width} px`);
	}
	assert.deepEqual(await barriers(page), []);
});

test('the newest line stays in view while the field below grows and shrinks', async () => {
	const lines = working((log) => {
		for (let at = 0; at < 40; at += 1) {
			const text = `Paragraph ${at}\n\nand more of it`;
			log.put('item.completed', { turn: 'trn_1', item: { id: `i${at}`, kind: 'message', status: 'completed', text } });
		}
	});
	const stand = await standIn({
		sessions: [listed(1, { status: 'working', group: 'working' })],
		logs: { [ID]: lines },
	});
	const page = await open(`${stand.url}/s/${ID}`);
	await page.getByText('Paragraph 39').waitFor();
	const fromEnd = () =>
		page.getByLabel('Conversation').evaluate(async (list) => {
			for (let frame = 0; frame < 4; frame += 1) await new Promise(requestAnimationFrame);
			return list.scrollHeight - list.scrollTop - list.clientHeight;
		});
	const field = page.locator('#composer');
	await field.focus();
	for (let line = 0; line < 12; line += 1) {
		await page.keyboard.type(`line ${line}`);
		assert.ok((await fromEnd()) < 2, `${await fromEnd()} px from the end in line ${line}`);
		await page.keyboard.press('Shift+Enter');
	}
	await page.keyboard.type('word after word in the last line');
	assert.ok((await fromEnd()) < 2, `${await fromEnd()} px from the end`);
	await field.fill('');
	assert.ok((await fromEnd()) < 2, `${await fromEnd()} px from the end when it is empty again`);
	await field.fill('one\ntwo\nthree\nfour\nfive\nsix\nseven');
	// What comes then is followed, and who goes up while it is written is left alone.
	const item = (id) => ({ turn: 'trn_1', item: { id, kind: 'message', status: 'completed', text: 'Something new' } });
	const log = logOf(ID);
	log.lines.push(...lines);
	stand.tell(ID, log.put('item.completed', item('n1')));
	await page.getByText('Something new').waitFor();
	assert.ok((await fromEnd()) < 2, `${await fromEnd()} px from the end with what came`);
	assert.equal(await page.getByRole('button', { name: /Jump to live/ }).count(), 0);
	await page.getByLabel('Conversation').hover();
	await page.mouse.wheel(0, -600);
	await page.waitForTimeout(200);
	await field.fill('');
	assert.ok((await fromEnd()) > 300, 'thrown back to the end');
});

test('the page of an image shows what nobody sees, and a step that fails while one watches opens', async () => {
	const step = { title: 'npm ci', attempts: 1, duration_ms: 5, output: 'it ended badly' };
	const image = {
		state: 'building',
		error: 'the step ended:\nexe\u202egnp',
		steps: [{ ...step, state: 'running', notes: ['slow\u202e'] }],
		current: {
			built_at: '2026-11-01T10:00:00Z',
			duration_ms: 1,
			bytes: 1,
			branch: 'main',
			commit: 'a'.repeat(40),
			checks: [{ name: 'test', state: 'not_run', why: 'no\u202eway' }],
		},
	};
	const stand = await standIn({
		answers: {
			'/api/v1/environments': { environments: [environment()] },
			'/api/v1/environments/shop/image': () => image,
		},
	});
	const page = await open(`${stand.url}/environments/shop/image`);
	await page.getByText('exe⟨U+202E⟩gnp').waitFor();
	await page.getByText('no⟨U+202E⟩way').waitFor();
	assert.equal(await page.getByText('it ended badly').count(), 0);
	image.steps[0].state = 'failed';
	await page.getByText('it ended badly').waitFor();
	await page.getByText('slow⟨U+202E⟩').waitFor();
	assert.doesNotMatch(await page.evaluate(() => document.body.innerText), /\u202e/);
});

test('turns that were asked the same have names of their own, and one that changed nothing says so', async () => {
	const receipt = (tools, insertions) => ({
		steps: 1,
		tools_completed: tools,
		tools_skipped: 0,
		files_changed: 1,
		insertions,
		deletions: 0,
		spend: { usage: {}, cost_usd: 0, calls: 0 },
		duration_ms: 10,
	});
	const log = logOf(ID);
	log.put('session.created', { title: 'Again', environment: 'shop', recipe: { repos: [] }, model: 'main' });
	for (const [number, person, made] of [
		[1, 'ana', receipt(2, 1)],
		[2, 'ben', receipt(0, 1)],
		[3, 'ana', receipt(1, 4)],
	]) {
		log.put('prompt.queued', { prompt: `prm_${number}`, text: 'Go on' }, { kind: 'user', id: person });
		log.put('turn.started', { turn: `trn_${number}`, prompt: `prm_${number}` });
		log.put('turn.finished', { turn: `trn_${number}`, outcome: 'done', receipt: made });
	}
	const stand = await standIn({
		sessions: [listed(1)],
		logs: { [ID]: log.lines },
		answers: { [`/api/v1/sessions/${ID}/diff`]: diff(PATCH) },
	});
	const page = await open(`${stand.url}/s/${ID}/changes`);
	await page.getByLabel('Which changes').waitFor();
	const options = await page.getByLabel('Which changes').locator('option').allInnerTexts();
	assert.match(
		options.join('\n'),
		/^All changes\n1: Go on \(ana, .*\)\n2: Go on \(ben, .*\), changed nothing\n3: Go on \(ana, .*\)$/,
	);
	await page.goto(`${stand.url}/s/${ID}`);
	await page
		.getByRole('link', { name: /1 file differs from the base/ })
		.first()
		.waitFor();
});

test('what is over is told by where one can go on: the budget, the pull request that is open', async () => {
	const turn = 'trn_1';
	const delivery = {
		branch: 'fix',
		remote: '/srv/shop.git',
		state: 'opened',
		number: 7,
		url: 'https://forge.example/7',
		review: { state: 'open', at: '2026-11-01T10:00:00Z' },
	};
	const lines = working((log) => {
		log.put('delivery.updated', delivery);
		log.put('turn.finished', {
			turn,
			outcome: 'out_of_budget',
			reason: 'The budget of the turn is used up.\nRaise it with slipway budget.',
			receipt: {
				steps: 1,
				tools_completed: 1,
				tools_skipped: 0,
				files_changed: 1,
				insertions: 1,
				deletions: 1,
				spend: { usage: {}, cost_usd: 0, calls: 0 },
				duration_ms: 10,
			},
		});
	});
	const preview = {
		base: 'main',
		body: '- [x] tested',
		branch: 'fix',
		pull_request: true,
		remote: '/srv/shop.git',
		title: 'Fix',
		delivery,
	};
	const stand = await standIn({
		sessions: [listed(1)],
		logs: { [ID]: lines },
		answers: { [`/api/v1/sessions/${ID}/delivery`]: preview },
	});
	for (const phone of [false, true]) {
		const page = await open(`${stand.url}/s/${ID}`, { phone });
		await page.getByRole('button', { name: 'Change the budget here' }).click();
		await page.getByLabel('Dollars for the session').and(page.locator(':focus')).waitFor();
		await page.getByRole('button', { name: 'Close', exact: true }).click();
		await page.waitForFunction(() => !location.search);
		if (phone) await page.keyboard.press('Escape');
		await page.getByRole('button', { name: 'Delivery' }).first().click();
		const dialog = page.getByRole('dialog', { name: 'Delivery' });
		await dialog.getByRole('heading', { name: 'Update pull request #7' }).waitFor();
		await dialog.getByText('☑ tested').waitFor();
		assert.deepEqual(await barriers(page), []);
	}
});

test('the ends of lines, the end of a name and a line end in it can be seen, and `v` keeps the focus', async () => {
	const deep = `${'a-long-folder/'.repeat(12)}itself.js`;
	const patch = [
		'diff --git a/ends.txt b/ends.txt\n--- a/ends.txt\n+++ b/ends.txt\n@@ -1,2 +1,2 @@\n-one\n-two\n+one\r\n+two\r',
		`diff --git a/${deep} b/${deep}\n--- a/${deep}\n+++ b/${deep}\n@@ -1 +1 @@\n-a\n+b`,
		'diff --git "a/a\\nb.js" "b/a\\nb.js"\n--- "a/a\\nb.js"\n+++ "b/a\\nb.js"\n@@ -1 +1 @@\n-a\n+b\n',
	].join('\n');
	const stand = await standIn({
		sessions: [listed(1)],
		logs: { [ID]: working() },
		answers: { [`/api/v1/sessions/${ID}/diff`]: diff(patch) },
	});
	for (const phone of [false, true]) {
		const page = await open(`${stand.url}/s/${ID}/changes`, { phone });
		const file = page.getByRole('region', { name: 'ends.txt' });
		await file.getByText('only the ends of lines changed, now CRLF').and(page.locator(':visible')).waitFor();
		assert.equal(await file.getByText('CRLF', { exact: true }).count(), 2);
		const own = page.locator('h2').getByText('itself.js', { exact: true });
		const box = await own.boundingBox();
		const header = await page.locator('h2', { hasText: 'itself.js' }).boundingBox();
		assert.ok(box.width > 50 && box.x + box.width < header.x + header.width, JSON.stringify(box));
		await page.getByRole('region', { name: 'a⟨U+000A⟩b.js' }).waitFor();
		assert.deepEqual(await barriers(page), []);
		if (phone) continue;
		await page.keyboard.press('n');
		await page.locator('[data-hunk="ends.txt"]:focus').waitFor();
		await page.keyboard.press('ArrowDown');
		await page.keyboard.press('v');
		await page.locator('h2[data-file="ends.txt"]:focus').waitFor();
		await page.keyboard.press('v');
		// A comment on the file is begun below its header.
		await page.keyboard.press('m');
		const field = page.getByRole('textbox', { name: 'Comment on ends.txt' });
		await field.and(page.locator(':focus')).waitFor();
		const below = await page.locator('h2[data-file="ends.txt"]').boundingBox();
		assert.ok((await field.boundingBox()).y >= below.y + below.height);
	}
});

test('on a phone what is asked has room: long answers, and links that a finger can hit', async () => {
	const option =
		'Keep the old rounding for orders that were placed before the change, and use the new one for all others';
	const asks = (gate, call) =>
		working((log) => {
			const item = {
				id: 'i1',
				kind: 'tool_call',
				status: 'in_progress',
				call_id: 'c',
				tool: call.tool,
				input: call.input,
			};
			log.put('item.started', { turn: 'trn_1', item });
			const file = { path: 'src/cart.js', insertions: 1, deletions: 0 };
			log.put('egress.decided', { host: 'a.example', port: 443, allowed: true, rule: 'a', connections: 1 });
			log.put('approval.requested', {
				approval: 'apr_1',
				turn: 'trn_1',
				question: 'May it?',
				gate,
				call: { item: 'i1', ...call },
				diff: { files: [file], count: 1, insertions: 1, deletions: 0 },
			});
		});
	const second = listed(2).id;
	const stand = await standIn({
		sessions: [1, 2].map((number) => listed(number, { status: 'waiting', group: 'needs_you' })),
		logs: {
			[ID]: asks('question', { tool: 'ask', input: { question: 'Which?' }, options: [option, 'Another'] }),
			[second]: asks('delivery', { tool: 'shell', input: { command: 'git push' } }).map((line) =>
				line.replaceAll(ID, second),
			),
		},
		answers: { [`/api/v1/sessions/${second}/diff`]: diff(PATCH) },
	});
	for (const id of [ID, second]) {
		const page = await open(`${stand.url}/s/${id}`, { phone: true });
		const card = page.getByRole('region', { name: 'Needs your decision' });
		await card.getByRole('link', { name: 'All changes' }).first().waitFor();
		if (id === ID) {
			const button = card.getByRole('button', { name: option });
			const box = await button.boundingBox();
			assert.ok(box.x >= 0 && box.x + box.width <= 390, JSON.stringify(box));
			assert.ok(await button.evaluate((one) => one.scrollWidth <= one.clientWidth));
		} else {
			// What waits has not begun.
			await page.getByRole('button', { name: /^Asked for git push waits/, expanded: false }).waitFor();
			assert.equal(await page.getByText('Nothing printed yet').count(), 0);
		}
		for (const link of await card.getByRole('link').all())
			assert.ok((await link.boundingBox()).height >= 44, await link.innerText());
		assert.deepEqual(await barriers(page), []);
		await page.getByRole('button', { name: 'Show the details' }).tap();
		const all = page.getByRole('link', { name: 'All connections' });
		assert.ok((await all.boundingBox()).height >= 44);
	}
});

test('the tab that is open stays in view on a phone while the others grow', async () => {
	const receipt = {
		steps: 1,
		tools_completed: 1,
		tools_skipped: 0,
		files_changed: 90,
		insertions: 12_345,
		deletions: 12_345,
		spend: { usage: {}, cost_usd: 0, calls: 0 },
		duration_ms: 10,
	};
	const lines = working();
	const stand = await standIn({ sessions: [listed(1)], logs: { [ID]: [...lines] } });
	const page = await open(`${stand.url}/s/${ID}/events`, { phone: true });
	const tabs = page.getByRole('navigation', { name: 'Parts of the session' });
	await page.getByRole('heading', { name: 'It works' }).waitFor();
	await tabs.getByRole('link', { name: 'Changes', exact: true }).waitFor();
	const log = logOf(ID);
	log.lines.push(...lines);
	stand.tell(ID, log.put('turn.finished', { turn: 'trn_1', outcome: 'done', receipt }));
	await tabs.getByText('+12345').waitFor();
	await page.waitForTimeout(100);
	const box = await tabs.getByRole('link', { name: 'Events' }).boundingBox();
	assert.ok(box.x >= 0 && box.x + box.width <= 390, JSON.stringify(box));
});
