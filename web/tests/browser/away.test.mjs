// What is away and comes back: sandboxes that sleep, networks that break, machines that were asleep.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { appOf, barriers } from '../support/browser.mjs';
import { startFront } from '../support/dev.mjs';
import { startServer } from '../support/server.mjs';
import { open, server } from '../support/stage.mjs';

/** A way to the server that can break. */
async function way(t) {
	const front = await startFront(server.url);
	t.after(() => front.close());
	return front;
}

test('a sandbox that nobody uses sleeps, the page says so, and a prompt wakes it', async (t) => {
	const sleepy = await startServer({ extra: '[sandbox]\nidle_s = 2\n' });
	t.after(() => sleepy.stop());
	const app = await appOf(sleepy);
	t.after(() => app.close());
	const { id } = await sleepy.call('POST', '/sessions', { environment: 'free', prompt: 'Please tidy the shop up' });
	const page = await open(`/s/${id}`, { at: app.url });
	const details = page.getByRole('complementary', { name: 'Details' });
	const sandbox = details.locator('section').filter({ has: page.getByRole('heading', { name: 'Sandbox' }) });
	await sandbox.getByText(/^stopped/).waitFor();
	await sandbox.getByText('nothing used it').waitFor();
	await sandbox.getByText('Its workspace is kept.').waitFor();
	assert.deepEqual(await barriers(page), []);

	// The session itself is as it was: done, with its changes.
	await page.locator('#main header').first().getByText('done', { exact: true }).waitFor();
	await page.getByRole('link', { name: /^Changes/ }).click();
	await page.getByText('Math.round').first().waitFor();
	await page.getByRole('link', { name: 'Session', exact: true }).click();

	await page.getByLabel('Go on').fill('Please rename the package');
	await page.keyboard.press('Control+Enter');
	await sandbox.getByText(/^up/).waitFor();
	await sleepy.status(id, 'done');
	await sandbox.getByText(/^stopped/).waitFor();
});

test('the network breaks and comes back: nothing is lost, nothing is done twice', async (t) => {
	const front = await way(t);
	const { id } = await server.call('POST', '/sessions', { environment: 'free', prompt: 'Nothing much' });
	await server.status(id, 'done');
	const page = await open(`/s/${id}`, { at: front.url });
	await page.getByRole('region', { name: 'Result' }).waitFor();
	front.cut();
	await page.getByText('The server cannot be reached.').first().waitFor();
	await page.getByLabel('Go on').fill('written while it was away');
	await page.keyboard.press('Control+Enter');
	await page.getByRole('button', { name: 'Try again' }).waitFor();
	await page.getByLabel('Go on').fill('still being written');
	await server.call('POST', `/sessions/${id}/prompts`, { prompt: 'asked by somebody else meanwhile' });
	await server.status(id, 'done');

	front.mend();
	await page.getByText(/Caught up, \d+ events\./).waitFor();
	await page.getByText('asked by somebody else meanwhile').first().waitFor();
	assert.equal(await page.getByLabel('Go on').inputValue(), 'still being written');
	// What could not be sent is sent by itself.
	await page.getByLabel('Conversation').getByText('written while it was away').first().waitFor();
	assert.equal(await page.getByRole('button', { name: 'Try again' }).count(), 0);
	await server.status(id, 'done');
	const { events } = await server.call('GET', `/sessions/${id}/events`);
	const asked = events.filter((event) => event.type === 'prompt.queued').map((event) => JSON.stringify(event.data));
	assert.equal(asked.filter((text) => text.includes('written while it was away')).length, 1);
});

test('after a sleep a connection that only looks open is not trusted', async (t) => {
	const front = await way(t);
	const { id } = await server.call('POST', '/sessions', { environment: 'free', prompt: 'Nothing much' });
	await server.status(id, 'done');
	const page = await open(`/s/${id}`, { at: front.url });
	await page.getByRole('region', { name: 'Result' }).waitFor();
	front.silence();
	await server.call('POST', `/sessions/${id}/prompts`, { prompt: 'asked during the sleep' });
	await server.status(id, 'done');
	assert.equal(await page.getByText('asked during the sleep').count(), 0);
	await page.evaluate(() => window.dispatchEvent(new Event('online')));
	await page.getByText('asked during the sleep').first().waitFor({ timeout: 10_000 });
});

test('a session whose answer was lost is not begun twice', async (t) => {
	const front = await way(t);
	const page = await open('/new?environment=free', { at: front.url });
	await page.getByLabel('What is to be done').fill('Is it begun only once?');
	// The server has it, and the answer does not come.
	await page.route('**/api/v1/sessions', async (route) => {
		if (route.request().method() !== 'POST') return route.fallback();
		await route.fetch();
		await route.abort();
	});
	await page.keyboard.press('Control+Enter');
	await page.getByRole('alert').waitFor();
	await page.unroute('**/api/v1/sessions');
	await page.keyboard.press('Control+Enter');
	await page.waitForURL(/\/s\/ses_/);
	const { sessions } = await server.call('GET', '/sessions?q=begun+only+once');
	assert.equal(sessions.length, 1);
});
