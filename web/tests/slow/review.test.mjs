// A review of 10,000 changed files: how much work the page has with it and how many elements. Prints what it measured.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBrowser } from '../support/browser.mjs';
import { listed, logOf, startStandIn } from '../support/stand-in.mjs';

const FILES = 10_000;
const SECOND = 1000;

test('10,000 changed files open in under a second of work', async () => {
	const session = listed(1);
	const log = logOf(session.id);
	log.put('session.created', { title: 'Many files', environment: 'shop', recipe: { repos: [] }, model: 'main' });
	const patch = Array.from({ length: FILES }, (_, at) => {
		const name = `part${at % 100}/file${at}.js`;
		return `diff --git a/${name} b/${name}\nindex 1..2 100644\n--- a/${name}\n+++ b/${name}\n@@ -1,3 +1,3 @@\n import x from 'y';\n-const a = ${at};\n+const a = ${at + 1};\n export {};\n`;
	}).join('');
	const diff = { base: 'a'.repeat(40), insertions: FILES, deletions: FILES, files: [], patch };
	const stand = await startStandIn({
		sessions: [session],
		logs: { [session.id]: log.lines },
		answers: { [`/api/v1/sessions/${session.id}/diff`]: diff },
	});
	const browser = await startBrowser();
	try {
		const page = await browser.page();
		const client = await page.context().newCDPSession(page);
		await client.send('Performance.enable');
		const metrics = async () => {
			const { metrics: all } = await client.send('Performance.getMetrics');
			return Object.fromEntries(all.map((one) => [one.name, one.value]));
		};
		await page.goto(`${stand.url}/settings/browser`);
		await page.getByRole('radio', { name: 'Dark' }).waitFor();
		const before = await metrics();
		await page.evaluate((path) => {
			history.pushState(null, '', path);
			window.dispatchEvent(new PopStateEvent('popstate'));
		}, `/s/${session.id}/changes`);
		await page.getByRole('region', { name: 'part0/file0.js', exact: true }).waitFor({ timeout: 60_000 });
		const after = await metrics();
		const work = (after.TaskDuration - before.TaskDuration) * SECOND;
		const heap = after.JSHeapUsedSize / 1024 / 1024;
		process.stdout.write(
			`# ${FILES} files, ${(patch.length / 1024 / 1024).toFixed(1)} MB of changes: main thread ${work.toFixed(0)} ms; heap ${heap.toFixed(0)} MB, ${after.Nodes} nodes\n`,
		);
		assert.ok(work < SECOND, `the main thread worked ${work.toFixed(0)} ms`);
		assert.ok(after.Nodes < 20_000, `the page has ${after.Nodes} nodes`);
		await page.context().close();
	} finally {
		await browser.close();
		stand.close();
	}
});
