// What somebody wrote is kept, and what the app needs is there: without the server, after a reload, after an upgrade.
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { barriers } from '../support/browser.mjs';
import { dist, startFront } from '../support/dev.mjs';
import { browser, open, pages, server } from '../support/stage.mjs';

/** A way to the server that can break. */
async function way(t) {
	const front = await startFront(server.url);
	t.after(() => front.close());
	return front;
}

async function begin(environment, prompt, ...wanted) {
	const { id } = await server.call('POST', '/sessions', { environment, prompt });
	if (wanted.length) await server.status(id, ...wanted);
	return id;
}

const asked = async (id, words) => {
	const { events } = await server.call('GET', `/sessions/${id}/events?limit=1000`);
	return events.filter((event) => event.type === 'prompt.queued' && JSON.stringify(event.data).includes(words)).length;
};

/** A browser that is to save data fetches no part of the app before it is wanted. */
const sparing = () => {
	Object.defineProperty(navigator, 'connection', { value: { saveData: true } });
};

/** The app as another build of it would be: the same, with other names. */
function otherBuild(t) {
	const directory = mkdtempSync(join(tmpdir(), 'slipway-build-'));
	t.after(() => rmSync(directory, { recursive: true, force: true }));
	cpSync(dist, directory, { recursive: true });
	const assets = join(directory, 'assets');
	const names = readdirSync(assets)
		.filter((name) => /^(index|changes)-.*\.js$/.test(name))
		.map((name) => [name, name.replace(/-.*\.js$/, '-NextBuild.js')]);
	for (const path of ['index.html', 'sw.js', ...readdirSync(assets).map((name) => `assets/${name}`)]) {
		if (!/\.(js|html)$/.test(path)) continue;
		let text = readFileSync(join(directory, path), 'utf8');
		for (const [name, next] of names) text = text.replaceAll(name, next);
		if (path === 'sw.js') text = text.replace(/const BUILD = '[^']*'/, "const BUILD = 'next'");
		writeFileSync(join(directory, path), text);
	}
	for (const [name, next] of names) renameSync(join(assets, name), join(assets, next));
	return directory;
}

test('a part of the app that was not fetched in time says so in its place, and comes by itself', async (t) => {
	const front = await way(t);
	const id = await begin('shop', 'The cart total is off by one cent', 'done');
	const page = await open(`/s/${id}`, { at: front.url, before: sparing });
	const tabs = page.getByRole('navigation', { name: 'Parts of the session' });
	await page.getByLabel('Go on').fill('half a sentence');
	front.cut();
	await page.getByText('The server cannot be reached.').first().waitFor();

	await page.keyboard.press('Escape');
	await page.keyboard.press('Control+k');
	const palette = page.getByRole('dialog', { name: 'Find anything' });
	await palette.getByText('This part of the app is not here yet').waitFor();
	assert.deepEqual(await barriers(page), []);
	await page.keyboard.press('Escape');
	await palette.waitFor({ state: 'detached' });

	await tabs.getByRole('link', { name: /^Changes/ }).click();
	const missing = page.getByText('This part of the app is not here yet');
	await missing.waitFor();
	await page.getByRole('button', { name: 'Try again' }).click();
	await missing.waitFor();
	// The rest is as it was.
	await page.getByRole('heading', { level: 1 }).waitFor();
	await tabs.getByRole('link', { name: 'Session', exact: true }).click();
	assert.equal(await page.getByLabel('Go on').inputValue(), 'half a sentence');
	await tabs.getByRole('link', { name: /^Changes/ }).click();
	await missing.waitFor();

	front.mend();
	await page.getByRole('heading', { name: /src\/cart\.js/ }).waitFor();

	await page.getByRole('link', { name: 'Sessions', exact: true }).first().click();
	front.cut();
	await page
		.getByText(/offline|connecting/)
		.first()
		.waitFor();
	await page.getByRole('link', { name: 'Statistics' }).click();
	await missing.waitFor();
	front.mend();
	await page.getByRole('heading', { name: 'Statistics' }).first().waitFor();
});

test('what was fetched while nothing else was to be done is there without the server', async (t) => {
	const front = await way(t);
	const page = await open('/', { at: front.url });
	await page.waitForFunction(() => {
		const names = performance.getEntriesByType('resource').map((one) => one.name);
		return ['palette', 'changes', 'terminal', 'statistics', 'new'].every((part) =>
			names.some((name) => name.includes(`/assets/${part}-`)),
		);
	});
	front.cut();
	await page
		.getByText(/offline|connecting/)
		.first()
		.waitFor();
	await page.keyboard.press('Control+k');
	await page.getByPlaceholder('A session, a page, or what to do').fill('statist');
	await page.keyboard.press('Enter');
	await page.waitForURL(/statistics/);
	await page.getByText('The server cannot be reached').first().waitFor();
	front.mend();
	await page.getByRole('heading', { name: 'Statistics' }).first().waitFor();
});

test('after an upgrade a page says that there is a new version, and loads it when it is asked to', async (t) => {
	const front = await way(t);
	const id = await begin('shop', 'The cart total is off by one cent', 'done');
	const page = await open(`/s/${id}`, { at: front.url, before: sparing });
	await page.getByLabel('Go on').fill('half a sentence');
	const told = page.getByText('There is a new version of Slipway.');
	front.upgrade(otherBuild(t));
	await page.getByRole('link', { name: /^Changes/ }).click();
	await told.first().waitFor();
	assert.deepEqual(await barriers(page), []);
	await page.getByRole('button', { name: 'Load it' }).first().click();
	await page.getByRole('heading', { name: /src\/cart\.js/ }).waitFor();
	assert.equal(await told.count(), 0);
	await page.getByRole('link', { name: 'Session', exact: true }).click();
	assert.equal(await page.getByLabel('Go on').inputValue(), 'half a sentence');

	// Also where nothing is missing: a server that comes back may be another one.
	front.upgrade(dist);
	front.cut();
	await page.getByText('The server cannot be reached.').first().waitFor();
	front.mend();
	await told.waitFor();
});

test('the app opens without the server, goes on when it is there, and is the new one after an upgrade', async (t) => {
	const front = await way(t);
	const id = await begin('free', 'Nothing much', 'done');
	const page = await browser.page({ worker: true });
	page.setDefaultTimeout(60_000);
	pages.push(page);
	await page.goto(`${front.url}/s/${id}`);
	await page.getByRole('region', { name: 'Result' }).waitFor();
	const kept = () =>
		page.evaluate(async () => {
			await navigator.serviceWorker.ready;
			const all = [];
			for (const name of await caches.keys())
				for (const { url } of await (await caches.open(name)).keys()) all.push(new URL(url).pathname);
			return all;
		});
	await page.waitForFunction(() => navigator.serviceWorker.controller !== null);
	assert.ok((await kept()).includes('/index.html'));
	assert.deepEqual(
		(await kept()).filter((path) => path.startsWith('/api')),
		[],
		'nothing that the server says is kept',
	);

	front.cut();
	await page.goto(`${front.url}/`);
	await page.getByRole('link', { name: 'Statistics' }).waitFor();
	await page.getByText('The server cannot be reached').first().waitFor();
	assert.deepEqual(await barriers(page), []);
	await page.goto(`${front.url}/s/${id}`);
	await page.getByText('The server cannot be reached').first().waitFor();
	front.mend();
	await page.getByRole('region', { name: 'Result' }).waitFor();
	await page.goto(`${front.url}/`);
	await page.locator('#main').getByText('Nothing much').first().waitFor();
	assert.deepEqual(
		(await kept()).filter((path) => path.startsWith('/api')),
		[],
	);

	front.upgrade(otherBuild(t));
	const entry = () => page.evaluate(() => document.querySelector('script[type=module]').src);
	await page.reload();
	assert.match(await entry(), /index-NextBuild/);
	await page.evaluate(async () => {
		const registration = await navigator.serviceWorker.getRegistration();
		for (;;) {
			const { active, waiting, installing } = registration;
			if ((await caches.has('slipway.next')) && active?.state === 'activated' && !waiting && !installing) return;
			await new Promise((done) => setTimeout(done, 50));
		}
	});
	front.cut();
	await page.reload();
	assert.match(await entry(), /index-NextBuild/);
});

test('a prompt that could not be sent survives a reload, and is sent once when the server is back', async (t) => {
	const front = await way(t);
	const id = await begin('free', 'Nothing much', 'done');
	const page = await open(`/s/${id}`, { at: front.url });
	await page.getByRole('region', { name: 'Result' }).waitFor();
	await page.route('**/prompts', (route) => route.abort());
	const queue = page.getByRole('region', { name: 'Queue' });
	for (const text of ['typed on the train', 'and one more of the same train']) {
		await page.getByLabel('Go on').fill(text);
		await page.keyboard.press('Control+Enter');
		await queue.getByText(text).waitFor();
	}
	await queue.getByText('kept here, sent when the server is back').first().waitFor();
	assert.deepEqual(await barriers(page), []);
	await page.reload();
	await queue.getByText('typed on the train').waitFor();
	await queue.getByText('and one more of the same train').waitFor();
	// From elsewhere in the app, too: nobody has to come back to the session for it.
	await page.goto(`${front.url}/settings/browser`);
	front.cut();
	await page
		.getByText(/offline|connecting/)
		.first()
		.waitFor();
	await page.unroute('**/prompts');
	front.mend();
	await page.waitForFunction(() => !Object.keys(localStorage).some((key) => key.startsWith('slipway.pending.')));
	await server.status(id, 'done');
	assert.equal(await asked(id, 'typed on the train'), 1);
	assert.equal(await asked(id, 'one more of the same'), 1);
	const { events } = await server.call('GET', `/sessions/${id}/events?limit=1000`);
	const texts = events.filter((event) => event.type === 'prompt.queued').map((event) => JSON.stringify(event.data));
	assert.ok(texts.findIndex((one) => one.includes('typed on')) < texts.findIndex((one) => one.includes('one more of')));
});

test('a prompt whose answer was lost with the page is not asked twice', async (t) => {
	const front = await way(t);
	const id = await begin('free', 'Nothing much', 'done');
	const page = await open(`/s/${id}`, { at: front.url });
	await page.getByRole('region', { name: 'Result' }).waitFor();
	// The server has it, and the page never hears of it.
	let arrived;
	const there = new Promise((done) => {
		arrived = done;
	});
	await page.route('**/prompts', async (route) => {
		await route.fetch();
		arrived();
		await new Promise(() => undefined);
	});
	await page.getByLabel('Go on').fill('asked only once');
	await page.keyboard.press('Control+Enter');
	await there;
	await page.unroute('**/prompts');
	await page.reload();
	await page.waitForFunction(() => !Object.keys(localStorage).some((key) => key.startsWith('slipway.pending.')));
	await page.getByLabel('Conversation').getByText('asked only once').first().waitFor();
	assert.equal(await page.getByRole('region', { name: 'Queue' }).count(), 0);
	assert.equal(await asked(id, 'asked only once'), 1);
});

test('comments are kept while they are written and until the server has them', async (t) => {
	const front = await way(t);
	const id = await begin('shop', 'The cart total is off by one cent', 'done');
	const page = await open(`/s/${id}/changes`, { at: front.url });
	const comment = page.getByRole('textbox', { name: /^Comment on line/ });
	await page
		.getByRole('button', { name: /^Comment on line/ })
		.first()
		.click();
	await comment.fill('half a thought of mine');
	const tabs = page.getByRole('navigation', { name: 'Parts of the session' });
	await tabs.getByRole('link', { name: /^Checks/ }).click();
	await page.getByRole('button', { name: /check test passed/ }).waitFor();
	await tabs.getByRole('link', { name: /^Changes/ }).click();
	await comment.waitFor();
	assert.equal(await comment.inputValue(), 'half a thought of mine');
	await page.reload();
	await comment.waitFor();
	assert.equal(await comment.inputValue(), 'half a thought of mine');
	await comment.press('Escape');
	assert.equal(await comment.inputValue(), 'half a thought of mine', 'Escape takes nothing away');

	// The changes cannot be read again: what was read stays, with what is written in it.
	await page.route('**/diff*', (route) => route.abort());
	await page.waitForTimeout(5_100);
	await page.evaluate(() => {
		document.dispatchEvent(new Event('visibilitychange', { bubbles: true }));
		window.dispatchEvent(new Event('visibilitychange'));
	});
	await page.getByRole('alert').getByText('The server cannot be reached').waitFor();
	assert.equal(await comment.inputValue(), 'half a thought of mine');
	assert.deepEqual(await barriers(page), []);
	await page.unroute('**/diff*');
	await page.getByRole('button', { name: 'Try again' }).click();
	await page.getByRole('alert').waitFor({ state: 'detached' });

	await page.getByRole('button', { name: 'Comment', exact: true }).click();
	await page.getByText('not sent yet').waitFor();
	await page.route('**/prompts', (route) => route.abort());
	await page.getByRole('button', { name: 'Send the comment' }).click();
	const queue = page.getByRole('region', { name: 'Queue' });
	await queue.getByText('kept here, sent when the server is back').waitFor();
	assert.equal(await page.getByText('The comment is sent').count(), 0);
	// It is on the way, and not sent a second time; taken back, it is a comment again.
	await tabs.getByRole('link', { name: /^Changes/ }).click();
	await page.getByText('on the way').first().waitFor();
	assert.equal(await page.getByRole('button', { name: 'Send the comment' }).count(), 0);
	await tabs.getByRole('link', { name: 'Session', exact: true }).click();
	await queue.getByRole('button', { name: 'Discard' }).click();
	await tabs.getByRole('link', { name: /^Changes/ }).click();
	await page.getByRole('button', { name: 'Send the comment' }).click();
	await queue.getByText('kept here, sent when the server is back').waitFor();
	await page.reload();
	await queue.getByText(/Please take up these comments/).waitFor();
	await page.unroute('**/prompts');
	await queue.getByRole('button', { name: 'Try again' }).click();
	await page.waitForFunction(() => !Object.keys(localStorage).some((key) => key.startsWith('slipway.pending.')));
	await tabs.getByRole('link', { name: /^Changes/ }).click();
	await page.getByRole('heading', { name: /src\/cart\.js/ }).waitFor();
	assert.equal(await page.getByText('half a thought of mine').count(), 0);
	assert.equal(await asked(id, 'half a thought of mine'), 1);
});

test('answers and changed calls are kept until they are given', async () => {
	const question = await begin('free', 'Which currency do we use?', 'waiting');
	const page = await open(`/s/${question}`);
	const tabs = page.getByRole('navigation', { name: 'Parts of the session' });
	const answer = page.getByLabel('Your answer');
	await answer.fill('We use euros, and ce');
	await tabs.getByRole('link', { name: /^Changes/ }).click();
	await page.getByText('Nothing changed yet').waitFor();
	await tabs.getByRole('link', { name: 'Session', exact: true }).click();
	assert.equal(await answer.inputValue(), 'We use euros, and ce');
	await page.reload();
	assert.equal(await answer.inputValue(), 'We use euros, and ce');
	await answer.fill('We use euros, and cents');
	await page.getByRole('button', { name: 'Answer', exact: true }).click();
	await page.getByText('Thank you. I made a note of it and changed nothing.').first().waitFor();
	await page.waitForFunction(() => !Object.keys(localStorage).some((key) => key.startsWith('slipway.draft.approval')));

	const call = await begin('careful', 'Please rename the package', 'waiting');
	await page.goto(page.url().replace(question, call));
	const card = page.getByRole('region', { name: 'Needs your decision' });
	await card.getByRole('button', { name: 'Change it' }).click();
	await card.getByLabel('new of edit').fill('"name": "corner-shop"');
	await card.getByLabel('What the agent is told with it').fill('our name for it');
	await tabs.getByRole('link', { name: /^Changes/ }).click();
	await page.getByText('Nothing changed yet').waitFor();
	await tabs.getByRole('link', { name: 'Session', exact: true }).click();
	assert.equal(await card.getByLabel('new of edit').inputValue(), '"name": "corner-shop"');
	await page.reload();
	assert.equal(await card.getByLabel('new of edit').inputValue(), '"name": "corner-shop"');
	assert.equal(await card.getByLabel('What the agent is told with it').inputValue(), 'our name for it');
	await card.getByRole('button', { name: 'Approve as changed' }).click();
	await card.getByText('corner-shop').waitFor();
	await card.getByRole('button', { name: 'Reject' }).click();
	await server.status(call, 'escalated');
});

test('a recipe that is being changed is kept, and put on top of what was changed meanwhile', async () => {
	await server.call('PUT', '/environments/kept', {
		repos: [{ url: server.repository, branch: 'main' }],
		base: 'host',
		egress: ['a.example.com'],
	});
	const page = await open('/environments/kept/recipe');
	const field = page.getByLabel('Instructions');
	await field.fill('Half of my instructions');
	await page.getByRole('link', { name: 'Network', exact: true }).click();
	await page.getByLabel('A host to allow').fill('b.example.com');
	await page.getByRole('button', { name: 'Allow' }).click();
	await page.getByRole('region', { name: 'What can be reached' }).getByText('b.example.com').waitFor();
	await page.getByRole('link', { name: 'Recipe', exact: true }).click();
	assert.equal(await field.inputValue(), 'Half of my instructions');
	await page.getByText('The recipe was changed meanwhile.').waitFor();
	assert.deepEqual(await barriers(page), []);
	await page.reload();
	assert.equal(await field.inputValue(), 'Half of my instructions');
	await page.getByText('It can be used').waitFor();
	await page.getByRole('button', { name: 'Save' }).click();
	await page.getByText('As it is saved').waitFor();
	const { environments } = await server.call('GET', '/environments');
	const saved = environments.find((one) => one.name === 'kept');
	assert.equal(saved.instructions, 'Half of my instructions');
	assert.deepEqual(saved.egress, ['a.example.com', 'b.example.com']);
	await page.reload();
	await page.getByText('As it is saved').waitFor();
});

test('queued prompts are moved, changed and removed, and a change that is being written is kept', async () => {
	const id = await begin('free', 'Please run something long', 'working');
	for (const prompt of ['first in the queue', 'second in the queue', 'third in the queue'])
		await server.call('POST', `/sessions/${id}/prompts`, { prompt });
	const page = await open(`/s/${id}`);
	const queue = page.getByRole('region', { name: 'Queue' });
	const order = async () =>
		(await server.call('GET', `/sessions/${id}`)).queued?.map((one) => one.text.split(' ')[0]) ?? [];
	const becomes = async (...wanted) => {
		for (let tries = 0; tries < 100; tries += 1) {
			if (JSON.stringify(await order()) === JSON.stringify(wanted)) return;
			await page.waitForTimeout(50);
		}
		assert.deepEqual(await order(), wanted);
	};
	await queue.getByText('third in the queue').waitFor();
	await queue.getByRole('button', { name: 'Later' }).first().click();
	await becomes('second', 'first', 'third');
	await queue.getByRole('listitem').first().getByText('second in the queue').waitFor();
	await queue.getByRole('button', { name: 'Earlier' }).last().click();
	await becomes('second', 'third', 'first');
	await queue.getByRole('listitem').last().getByText('first in the queue').waitFor();
	await queue.getByRole('button', { name: 'Remove it' }).last().click();
	await becomes('second', 'third');

	await queue.getByRole('button', { name: 'Change it' }).first().click();
	await queue.getByLabel('The prompt').fill('second, as it is bet');
	await page.reload();
	assert.equal(await queue.getByLabel('The prompt').inputValue(), 'second, as it is bet');
	assert.deepEqual(await barriers(page), []);
	await queue.getByLabel('The prompt').fill('changed in the queue');
	await queue.getByRole('button', { name: 'Save' }).click();
	await becomes('changed', 'third');

	// It begins while somebody writes: what was written is there, and nothing is sent by itself.
	await queue.getByRole('button', { name: 'Change it' }).last().click();
	await queue.getByLabel('The prompt').fill('too late for the third');
	const third = (await server.call('GET', `/sessions/${id}`)).queued.at(-1);
	await server.call('DELETE', `/sessions/${id}/prompts/${third.id}`);
	await queue.getByText('not saved: the prompt waits no longer').waitFor();
	await queue.getByRole('button', { name: 'Send it as a new one' }).click();
	await becomes('changed', 'too');
	await server.call('POST', `/sessions/${id}/stop`, { pause: true });
	await server.status(id, 'cancelled', 'queued');
});

test('`e` archives a session and brings it back', async () => {
	const id = await begin('free', 'Put me away later', 'done');
	const page = await open(`/s/${id}`);
	await page.getByRole('region', { name: 'Result' }).waitFor();
	const header = page.locator('#main header').first();
	await page.keyboard.press('e');
	await page.getByText('Archived', { exact: true }).waitFor();
	await header.getByText('archived', { exact: true }).waitFor();
	assert.equal((await server.call('GET', `/sessions/${id}`)).archived, true);
	await page.getByRole('button', { name: 'Undo' }).click();
	await header.getByText('archived', { exact: true }).waitFor({ state: 'detached' });
	await page.keyboard.press('e');
	await header.getByText('archived', { exact: true }).waitFor();
	await page.keyboard.press('e');
	await page.getByText('Back among the others').waitFor();
	await header.getByText('archived', { exact: true }).waitFor({ state: 'detached' });
	assert.notEqual((await server.call('GET', `/sessions/${id}`)).archived, true);
	// Not while somebody writes.
	await page.getByLabel('Go on').fill('');
	await page.getByLabel('Go on').pressSequentially('e');
	assert.equal(await page.getByLabel('Go on').inputValue(), 'e');
	assert.notEqual((await server.call('GET', `/sessions/${id}`)).archived, true);
});

test('who comes back to a tab is told what happened since they looked', async () => {
	const id = await begin('free', 'Nothing much', 'done');
	const page = await open(`/s/${id}`, { height: 420 });
	await page.getByRole('region', { name: 'Result' }).waitFor();
	const look = (state) =>
		page.evaluate((state) => {
			Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => state });
			document.dispatchEvent(new Event('visibilitychange', { bubbles: true }));
		}, state);
	await look('visible');
	assert.equal(await page.getByText(/Since you looked/).count(), 0, 'nothing happened');
	await look('hidden');
	await server.call('POST', `/sessions/${id}/prompts`, { prompt: 'The cart total is off by one cent' });
	await server.status(id, 'done');
	await page.waitForTimeout(500);
	await look('visible');
	await page.getByRole('button', { name: 'See what came since you looked' }).click();
	await page.getByText(/Since you looked: \d+ events/).waitFor();
	await page.getByRole('button', { name: 'See what came since you looked' }).waitFor({ state: 'detached' });
	assert.deepEqual(await barriers(page), []);
});

test('a tab that nobody sees does not notify while another one is in front', async () => {
	const first = await browser.page({ worker: true });
	pages.push(first);
	const front = await startFront(server.url);
	try {
		const context = first.context();
		await context.grantPermissions(['notifications'], { origin: front.url });
		await context.addInitScript(() => {
			window.__front = false;
			document.hasFocus = () => window.__front;
			window.__told = [];
			ServiceWorkerRegistration.prototype.showNotification = async (title) => {
				window.__told.push(title);
			};
			localStorage.setItem('slipway.notify', 'on');
		});
		const second = await context.newPage();
		for (const page of [first, second]) {
			await page.goto(front.url);
			await page.locator('#main').getByRole('region').first().waitFor();
		}
		const toFront = (page, on) =>
			page.evaluate((on) => {
				window.__front = on;
				window.dispatchEvent(new Event(on ? 'focus' : 'blur'));
			}, on);
		const told = () => first.evaluate(() => window.__told);
		await toFront(second, true);
		await begin('free', 'Which currency do we use in the other tab?', 'waiting');
		await first.getByRole('region', { name: 'Needs you' }).getByText('in the other tab').first().waitFor();
		await first.waitForTimeout(500);
		assert.deepEqual(await told(), []);
		await toFront(second, false);
		await begin('free', 'Which currency do we use elsewhere?', 'waiting');
		await first.waitForFunction(() => window.__told.length > 0);
		assert.deepEqual(await told(), ['Which currency do we use elsewhere? needs you']);
	} finally {
		front.close();
	}
});
