// Several people at one server, each with a token of their own.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { appOf, barriers, startBrowser } from '../support/browser.mjs';
import { startServer } from '../support/server.mjs';

let server;
let app;
let browser;
before(async () => {
	server = await startServer({ people: ['ana', 'ben'] });
	app = await appOf(server);
	browser = await startBrowser();
});
after(async () => {
	await browser?.close();
	app?.close();
	await server?.stop();
});

async function open(t, path, how) {
	const page = await browser.page(how);
	t.after(async () => {
		await page.context().close();
		assert.deepEqual(page.problems, []);
	});
	page.setDefaultTimeout(60_000);
	await page.goto(app.url + path);
	return page;
}

test('a token that is wrong is said to be wrong, and the right one opens the page that was asked for', async (t) => {
	const page = await open(t, '/environments#token=not-a-token-of-anybody');
	await page.getByLabel('Token').waitFor();
	await page.getByRole('alert').getByText('does not know the token').waitFor();
	assert.deepEqual(await barriers(page), []);
	await page.getByLabel('Token').fill('nor-is-this-one');
	await page.keyboard.press('Enter');
	await page.getByRole('button', { name: 'Sign in' }).waitFor();
	await page.getByRole('alert').getByText('does not know the token').waitFor();
	await page.getByLabel('Token').fill(server.tokens.ana);
	await page.keyboard.press('Enter');
	await page.getByRole('heading', { name: 'Environments' }).waitFor();
	await page.getByRole('link', { name: /careful/ }).waitFor();
	assert.match(page.url(), /environments$/);

	// A link signs in by itself, and the token does not stay in the address.
	const other = await open(t, `/settings/tokens#token=${server.tokens.ben}`);
	await other.getByText('It has a token.').waitFor();
	assert.doesNotMatch(other.url(), /token=/);
	await other.getByRole('button', { name: 'Sign out' }).click();
	await other.getByText('It has no token.').waitFor();
});

test('people see each other watch and write, and whose prompt is whose', async (t) => {
	const { id } = await server.call('POST', '/sessions', { environment: 'free', prompt: 'Nothing much' }, 'ana');
	for (let tries = 0; tries < 600; tries += 1) {
		if ((await server.call('GET', `/sessions/${id}`, undefined, 'ana')).status === 'done') break;
		await new Promise((done) => setTimeout(done, 50));
	}
	const ana = await open(t, `/s/${id}#token=${server.tokens.ana}`);
	const ben = await open(t, `/s/${id}#token=${server.tokens.ben}`);
	const watching = (page) =>
		page
			.getByRole('complementary', { name: 'Details' })
			.locator('section')
			.filter({ has: page.getByRole('heading', { name: 'Watching now' }) });
	await watching(ana).getByText('ana (you), ben').or(watching(ana).getByText('ben, ana (you)')).waitFor();
	await ben.getByLabel('Go on').pressSequentially('And what of the cart?');
	await ana.getByText('ben writes').waitFor();
	assert.equal(await ben.getByText('ben writes').count(), 0);
	await ben.keyboard.press('Control+Enter');
	const prompt = ana.getByLabel('Conversation').getByText('And what of the cart?');
	await prompt.first().waitFor();
	await ana.getByLabel('Conversation').getByText('ben', { exact: true }).waitFor();
	await ben.context().close();
	await watching(ana).getByText('ana (you)', { exact: true }).waitFor();
});
