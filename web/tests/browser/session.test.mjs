// A session as somebody sees it: with a real server, real sandboxes and the scripted model.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { barriers } from '../support/browser.mjs';
import { app, open, server } from '../support/stage.mjs';

async function begin(environment, prompt) {
	const { id } = await server.call('POST', '/sessions', { environment, prompt });
	return id;
}

test('a task is started and watched until it is done, and its branch is there', async () => {
	const page = await open('/new?environment=shop');
	await page.getByLabel('What is to be done').fill('The cart total is off by one cent');
	await page.getByText('Sandbox ready').waitFor();
	assert.ok((await server.call('GET', '/environments/shop/image')).warm > 0, 'there is one');
	await page.keyboard.press('Control+Enter');
	await page.waitForURL(/\/s\/ses_/);
	await server.status(page.url().split('/').at(-1), 'done');
	const header = page.locator('#main header').first();
	await header.getByText('done', { exact: true }).waitFor();
	// Only what is in view exists; the result is at the beginning, and after it what was said first.
	// The newest line may be on its way into view just then, so it is scrolled until it is there.
	await page.waitForFunction(() => {
		document.querySelector('[aria-label=Conversation]')?.scrollTo(0, 0);
		return document.querySelector('[aria-label=Result]') !== null;
	});
	await page.getByRole('region', { name: 'Result' }).waitFor();
	await page.getByText('I will look at the code and its tests first.').waitFor();
	await page.getByRole('button', { name: /check test failed/ }).waitFor();
	await page
		.getByText(/is pushed/)
		.first()
		.waitFor();
	await page.getByRole('link', { name: /^Changes/ }).click();
	await page.getByRole('heading', { name: /src\/cart\.js/ }).waitFor();
	assert.match(await page.locator('#main').innerText(), /Math\.round/);
	await page.getByRole('link', { name: /^Checks/ }).click();
	await page.getByRole('button', { name: /check test passed/ }).waitFor();
	assert.deepEqual(await barriers(page), []);
});

test('a reload in mid-stream shows the text so far and goes on', async () => {
	const id = await begin('free', 'Describe the repository slowly');
	const page = await open(`/s/${id}`);
	await page.getByText('Part 20 is about the cart.').waitFor();
	await page.getByLabel('Queue a follow-up').fill('not sent yet');
	await page.reload();
	await page.getByText('Part 20 is about the cart.').waitFor();
	assert.equal(await page.getByLabel('Queue a follow-up').inputValue(), 'not sent yet');
	server.model.open('stream');
	await page.getByRole('region', { name: 'Result' }).getByText('That is all.').waitFor();
	const text = await page.getByLabel('Conversation').innerText();
	assert.equal(
		text.split('Part 7 is about the cart.').length - 1,
		2,
		'once in the result and once in the conversation',
	);
});

test('two browsers in one session see the same', async () => {
	const id = await begin('free', 'Please run something long');
	const one = await open(`/s/${id}`);
	const two = await open(`/s/${id}`);
	await one.getByText('line 5 of a long command').waitFor();
	await two.getByText('line 5 of a long command').waitFor();
	await one.getByLabel('Queue a follow-up').fill('a follow-up for both');
	await one.keyboard.press('Control+Enter');
	await two.getByLabel('Queue', { exact: true }).getByText('a follow-up for both').waitFor();
	await two.getByRole('button', { name: 'Change it' }).click();
	await two.getByLabel('The prompt').fill('another text');
	await two.getByRole('button', { name: 'Save' }).click();
	await one.getByLabel('Queue', { exact: true }).getByText('another text').waitFor();
	await two.getByRole('button', { name: 'Remove it' }).click();
	await one.getByLabel('Queue', { exact: true }).waitFor({ state: 'detached' });
	await one.getByRole('button', { name: 'Stop' }).click();
	await one.getByText('What runs in the sandbox is ended.').waitFor();
	await one.getByRole('dialog', { name: 'Stop the turn' }).getByRole('button', { name: 'Stop', exact: true }).click();
	for (const page of [one, two]) await page.locator('#main header').first().getByText('stopped').waitFor();
});

test('the server is killed during a command and comes back, and the output goes on', async () => {
	const id = await begin('free', 'Please run something long');
	const page = await open(`/s/${id}`);
	await page.getByText('line 8 of a long command').waitFor();
	await server.kill('SIGKILL');
	await page.getByText('The server cannot be reached.').first().waitFor();
	await page.getByLabel('Queue a follow-up').fill('kept while it was away');
	await server.start();
	await page.getByText('The server cannot be reached.').first().waitFor({ state: 'detached' });
	assert.equal(await page.getByLabel('Queue a follow-up').inputValue(), 'kept while it was away');
	await page.getByText('line 60 of a long command').waitFor();
	await server.call('POST', `/sessions/${id}/stop`, {});
	await page.locator('#main header').first().getByText('stopped').waitFor();
});

test('an approval shows the change and is given with one tap on a phone', async () => {
	const id = await begin('careful', 'Please rename the package');
	const page = await open(`/s/${id}`, { phone: true });
	const card = page.getByRole('region', { name: 'Needs your decision' });
	await card.getByText('"name": "storefront"').waitFor();
	const button = card.getByRole('button', { name: 'Approve', exact: true });
	const box = await button.boundingBox();
	assert.ok(box.height >= 44, `the button is ${box.height} px high`);
	assert.deepEqual(await barriers(page), []);
	await button.tap();
	await card.getByText('+1').first().waitFor();
	await page
		.getByRole('region', { name: 'Needs your decision' })
		.getByRole('button', { name: 'Approve', exact: true })
		.tap();
	await server.status(id, 'done');
	await page
		.getByText(/is pushed/)
		.first()
		.waitFor();
	const width = await page.evaluate(() => document.documentElement.scrollWidth);
	assert.ok(width <= 390, `the page is ${width} px wide`);
});

test('a call that waits is changed before it runs, and what would go out is in the card', async () => {
	const id = await begin('careful', 'Please rename the package');
	const page = await open(`/s/${id}`);
	const card = page.getByRole('region', { name: 'Needs your decision' });
	await card.getByRole('button', { name: 'Change it' }).click();
	assert.equal(await card.getByLabel('new of edit').inputValue(), '"name": "storefront"');
	await card.getByLabel('new of edit').fill('"name": "corner-shop"');
	assert.deepEqual(await barriers(page), []);
	await card.getByLabel('What the agent is told with it').fill('our name for it');
	await card.getByRole('button', { name: 'Approve as changed' }).click();
	// The next question is whether it goes out, with the lines that would.
	await card.getByText('package.json').first().waitFor();
	await card.getByText('corner-shop').waitFor();
	await card.getByText('"name": "').first().waitFor();
	assert.equal(await card.getByText('storefront').count(), 0);
	await page.getByText(/changed and approved by local/).waitFor();
	assert.deepEqual(await barriers(page), []);
	await card.getByRole('button', { name: 'Reject' }).click();
	await server.status(id, 'escalated');
});

test('a budget that is used up is raised where it is shown', async () => {
	const { id } = await server.call('POST', '/sessions', {
		environment: 'free',
		prompt: 'The cart total is off by one cent',
		budgets: { session: {}, turn: { steps: 1 } },
	});
	await server.status(id, 'out_of_budget');
	const page = await open(`/s/${id}`);
	const header = page.locator('#main header').first();
	await header.getByText('out of budget').waitFor();
	const details = page.getByRole('complementary', { name: 'Details' });
	await details.getByRole('button', { name: 'Change' }).click();
	await details.getByLabel('Steps for each turn').fill('0');
	await details.getByRole('button', { name: 'Save' }).click();
	await page.getByText('A limit is a number above zero').waitFor();
	await details.getByLabel('Steps for each turn').fill('40');
	assert.deepEqual(await barriers(page), []);
	await details.getByRole('button', { name: 'Save' }).click();
	await page.getByText('The budget is changed').waitFor();
	const { budgets } = await server.call('GET', `/sessions/${id}`);
	assert.deepEqual(budgets.turn, { steps: 40 });
});

test('what is said into the microphone goes into the field, and is sent by hand', async () => {
	const id = await begin('free', 'Nothing much');
	await server.status(id, 'done');
	// A browser without a microphone and a service that listens; what it hears is said by the test.
	const before = () => {
		window.SpeechRecognition = class {
			start() {
				window.__hears = (...said) =>
					this.onresult({ resultIndex: 0, results: said.map((transcript) => [{ transcript }]) });
				window.__fails = (error) => {
					this.onerror({ error });
					this.onend();
				};
			}
			stop() {
				this.onend();
			}
		};
	};
	const page = await open(`/s/${id}`, { phone: true, before });
	const field = page.getByLabel('Go on');
	await field.fill('Please');
	const speak = page.getByRole('button', { name: 'Speak' });
	const { height, width } = await speak.boundingBox();
	assert.ok(height >= 44 && width >= 44, `the button is ${width} by ${height} px`);
	await speak.tap();
	const stop = page.getByRole('button', { name: 'Stop listening' });
	assert.equal(await stop.getAttribute('aria-pressed'), 'true');
	assert.deepEqual(await barriers(page), []);
	await page.evaluate(() => window.__hears(' round ', 'the total '));
	await page.waitForFunction(() => document.getElementById('composer').value === 'Please round the total');
	await page.evaluate(() => window.__hears('half up'));
	await page.waitForFunction(() => document.getElementById('composer').value === 'Please round the total half up');
	await stop.tap();
	await speak.waitFor();
	const { queue } = await server.call('GET', `/sessions/${id}`);
	assert.equal(queue?.length ?? 0, 0, 'nothing is sent by itself');
	assert.equal((await server.call('GET', `/sessions/${id}`)).status, 'done');

	await speak.tap();
	await page.evaluate(() => window.__fails('not-allowed'));
	await page.getByText('The microphone cannot be used: not-allowed').waitFor();
	await speak.waitFor();
	await page.getByRole('button', { name: 'Send' }).tap();
	await page.getByLabel('Conversation').getByText('Please round the total half up').first().waitFor();

	// Where a browser cannot listen there is no button.
	const without = await open(`/s/${id}`, {
		before: () => {
			delete window.SpeechRecognition;
			delete window.webkitSpeechRecognition;
		},
	});
	await without.getByLabel('Go on').waitFor();
	assert.equal(await without.getByRole('button', { name: 'Speak' }).count(), 0);
});

test('a question is answered by choosing', async () => {
	const id = await begin('free', 'Which currency do we use?');
	const page = await open(`/s/${id}`);
	await page.getByText('Should prices be shown in euros or in dollars?').first().waitFor();
	await page.getByRole('button', { name: 'Euros', exact: true }).click();
	await page.getByText('Thank you. I made a note of it and changed nothing.').first().waitFor();
});

test('a sandbox is not said to be ready while its image is built', async () => {
	const recipe = { repos: [{ url: server.repository, branch: 'main' }], base: 'host', setup: [{ run: 'sleep 8' }] };
	await server.call('PUT', '/environments/slow', recipe);
	const page = await open('/new?environment=slow');
	await page.getByLabel('What is to be done').pressSequentially('x');
	await page.getByText(/The image of this environment is being built: step 3 of 3, sleep 8/).waitFor();
	assert.equal(await page.getByText('Sandbox ready').count(), 0);
	await page.getByText('Sandbox ready').waitFor();
	const image = await server.call('GET', '/environments/slow/image');
	assert.deepEqual([image.state, image.warm > 0], ['ready', true]);
});

/** Seconds that the line on what goes on says are left. */
async function left(page, words) {
	const line = page.locator('#main p', { hasText: words }).last();
	await line.waitFor();
	const [, minutes = '0', seconds] = /(?:(\d+) m)? ?(?:(\d+) s)?$/.exec(await line.innerText());
	return Number(minutes) * 60 + Number(seconds ?? 0);
}

test('waiting for the model says why and until when', async () => {
	const id = await begin('free', 'Do it while the model is busy');
	const page = await open(`/s/${id}`);
	await page.getByText(/Waiting for the model, try \d of \d: the model server has too much to do/).waitFor();
	await page.getByText(/next try in \d+ s/).waitFor();
	await page.getByText('The model is back').first().waitFor();
});

test('a model that says nothing is waited for as long as the server waits', async () => {
	const id = await begin('free', 'Say nothing for a long time');
	const page = await open(`/s/${id}`);
	await page.getByText(/given up in/).waitFor();
	// The limit of the configuration, and not one of this page.
	const seconds = await left(page, 'Waiting for main');
	assert.ok(seconds > 150 && seconds <= 200, `given up in ${seconds} s`);
	server.model.open('silence');
	await server.status(id, 'done');
});

test('a command is said to end when the server ends it, whatever the model asked for', async () => {
	const id = await begin('free', 'Please run something long');
	const page = await open(`/s/${id}`);
	await page.getByText('line 2 of a long command').waitFor();
	// The model asked for two minutes; the configuration lets no command run for longer than 90 s.
	const seconds = await left(page, /times out in/);
	assert.ok(seconds > 60 && seconds <= 90, `times out in ${seconds} s`);
	await server.call('POST', `/sessions/${id}/stop`, {});
	await server.status(id, 'cancelled');
});

test('a file that is written over is shown with what goes, before a person says yes', async () => {
	const id = await begin('careful', 'Please write the readme anew');
	const page = await open(`/s/${id}`);
	const card = page.getByRole('region', { name: 'Needs your decision' });
	await card.getByText('A cart, and what it costs.').waitFor();
	await card.getByText('One shop for all.').waitFor();
	await card.getByText('README.md', { exact: true }).waitFor();
	assert.match(await card.getByRole('group', { name: 'Changed lines' }).innerText(), /−\s*A cart, and what it costs/);
	assert.deepEqual(await barriers(page), []);
	await card.getByRole('button', { name: 'Reject' }).click();
	await server.call('POST', `/sessions/${id}/stop`, {}).catch(() => undefined);
});

test('what models, tools and repositories say does no harm', async () => {
	const id = await begin('free', 'Be hostile <img src=x onerror="window.__hacked=1">');
	await server.status(id, 'done', 'escalated', 'failed');
	const page = await open(`/s/${id}`);
	await page.getByRole('region', { name: 'Result' }).waitFor();
	// Without waiting for one to stand still: the list may be drawn anew meanwhile.
	const openOne = () => {
		const folded = document.querySelector('[aria-label=Conversation] button[aria-expanded=false]');
		folded?.click();
		return folded !== null;
	};
	for (let opened = 0; opened < 20 && (await page.evaluate(openOne)); opened += 1);
	await page.getByText('<b>not bold</b>').first().waitFor();
	assert.equal(
		await page.locator('#main img, #main iframe, #main script, #main a[href^="javascript:"], #main [onclick]').count(),
		0,
	);
	await page.getByRole('link', { name: /^Changes/ }).click();
	await page.getByRole('heading', { name: /onerror/ }).waitFor();
	await page.getByRole('link', { name: 'Events' }).click();
	await page.getByText('turn.finished').first().waitFor();
	await page.getByRole('link', { name: 'Slipway', exact: true }).click();
	await page.getByText('Be hostile <img').first().waitFor();
	assert.equal(await page.evaluate(() => window.__hacked), undefined);
});

test('keys find sessions, open the palette and the help, and leave those who write alone', async () => {
	await server.status(await begin('free', 'Is there anything about the cart to change?'), 'done');
	const page = await open('/');
	await page.locator('#main').getByRole('region', { name: 'Finished' }).waitFor();
	await page.keyboard.press('?');
	await page.getByRole('dialog', { name: 'Keys' }).waitFor();
	await page.keyboard.press('Escape');
	await page.getByRole('dialog', { name: 'Keys' }).waitFor({ state: 'hidden' });
	// The focus comes back a moment after the dialog is gone.
	await page.evaluate(() => new Promise((done) => setTimeout(() => requestAnimationFrame(done), 100)));
	await page.keyboard.press('/');
	await page.locator('input:focus').waitFor();
	await page.keyboard.type('cart c?');
	assert.equal(await page.getByLabel('Search sessions').inputValue(), 'cart c?');
	assert.match(page.url(), /q=cart/);
	await page.getByLabel('Search sessions').fill('');
	await page.keyboard.press('Escape');
	await page.keyboard.press('j');
	await page.keyboard.press('Enter');
	await page.waitForURL(/\/s\/ses_/);
	await page.getByRole('navigation', { name: 'Parts of the session' }).waitFor();
	await page.keyboard.press('2');
	await page.waitForURL(/changes/);
	await page.keyboard.press('Control+k');
	await page.getByPlaceholder('A session, a page, or what to do').fill('statist');
	await page.keyboard.press('Enter');
	await page.waitForURL(/statistics/);
	await page.keyboard.press('c');
	await page.waitForURL(/new/);
	assert.deepEqual(await barriers(page), []);
});

test('the terminal is a shell in the sandbox', async () => {
	const id = await begin('free', 'Nothing much');
	await server.status(id, 'done');
	const page = await open(`/s/${id}/terminal`);
	await page.locator('.xterm-rows').getByText('$').first().waitFor();
	await page.keyboard.type('echo $((6*7)) in $PWD\n');
	await page.locator('.xterm-rows').getByText('42 in /workspace').waitFor();
});

for (const [name, how] of [
	['light', {}],
	['dark', { dark: true }],
	['dark, on a phone', { dark: true, phone: true }],
]) {
	test(`pages have no barriers, ${name}`, async () => {
		const { sessions } = await server.call('GET', '/sessions');
		const session = `/s/${sessions.at(-1).id}`;
		const page = await open('/', how);
		for (const path of [
			'/',
			'/new',
			session,
			...['changes', 'checks', 'files', 'events'].map((tab) => `${session}/${tab}`),
			'/statistics',
			'/environments',
			...['', '/recipe', '/network', '/secrets', '/memory'].map((tab) => `/environments/shop${tab}`),
			...['', '/budgets', '/people', '/tokens', '/forges', '/browser'].map((tab) => `/settings${tab}`),
			'/nothing/here',
		]) {
			await page.goto(app.url + path);
			await page.waitForLoadState('networkidle');
			assert.deepEqual(await barriers(page), [], path);
		}
	});
}
