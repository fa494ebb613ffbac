// What a file of browser tests has: one server, one browser, and pages that are closed after each test. A page that had
// problems, such as an error of a script, fails its test.
import assert from 'node:assert/strict';
import { after, afterEach, before } from 'node:test';
import { appOf, startBrowser } from './browser.mjs';
import { startServer } from './server.mjs';

export let server;
export let app;
export let browser;
export const pages = [];

before(async () => {
	server = await startServer();
	app = await appOf(server);
	browser = await startBrowser();
});
after(async () => {
	await browser?.close();
	app?.close();
	await server?.stop();
});
afterEach(async () => {
	const problems = pages.flatMap((page) => page.problems);
	for (const page of pages.splice(0)) await page.context().close();
	assert.deepEqual(problems, []);
});

export async function open(path, { at = app.url, before, ...how } = {}) {
	const page = await browser.page(how);
	page.setDefaultTimeout(60_000);
	pages.push(page);
	if (before) await page.addInitScript(before);
	await page.goto(at + path);
	return page;
}
