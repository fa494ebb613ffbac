// A session with 20,000 items and a log of 50 MB: how much work the page has with it, how it scrolls and what it keeps in
// memory. Prints what it measured.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBrowser } from '../support/browser.mjs';
import { longLog, startLong } from '../support/long.mjs';

const SECOND = 1000;
/** What scrolls may take longer than a frame now and then on a busy machine; not often, and never long. */
const FRAME = 1000 / 60;

test('20,000 items and 50 MB open in under a second of work and scroll smoothly', async () => {
	const log = longLog();
	const bytes = log.lines.reduce((sum, line) => sum + line.length, 0);
	const server = await startLong(log);
	const browser = await startBrowser();
	try {
		const page = await browser.page();
		const client = await page.context().newCDPSession(page);
		await client.send('Performance.enable');
		const metrics = async () => {
			const { metrics: all } = await client.send('Performance.getMetrics');
			return Object.fromEntries(all.map((one) => [one.name, one.value]));
		};
		await page.goto(`${server.url}/settings/browser`);
		await page.getByRole('radio', { name: 'Dark' }).waitFor();
		const before = await metrics();
		const begun = Date.now();
		await page.evaluate((path) => {
			history.pushState(null, '', path);
			window.dispatchEvent(new PopStateEvent('popstate'));
		}, `/s/${server.id}`);
		await page.getByRole('region', { name: 'Result' }).waitFor({ timeout: 60_000 });
		const took = Date.now() - begun;
		const after = await metrics();
		const work = (after.TaskDuration - before.TaskDuration) * SECOND;

		const frames = await page.evaluate(async () => {
			const list = document.querySelector('[aria-label=Conversation]');
			const gaps = [];
			let last = performance.now();
			for (let at = 0; at < 240; at += 1) {
				await new Promise(requestAnimationFrame);
				const now = performance.now();
				gaps.push(now - last);
				last = now;
				list.scrollTop += 120;
			}
			return gaps.slice(5).sort((a, b) => a - b);
		});
		await client.send('HeapProfiler.collectGarbage');
		const kept = (await metrics()).JSHeapUsedSize / 1024 / 1024;
		const nodes = (await metrics()).Nodes;
		const at = (share) => frames[Math.floor(frames.length * share)];
		const rate = 1000 / (frames.reduce((sum, gap) => sum + gap, 0) / frames.length);
		process.stdout.write(
			`# log ${(bytes / 1024 / 1024).toFixed(1)} MB, ${log.seq} events: open after ${took} ms, main thread ${work.toFixed(0)} ms; ` +
				`scroll ${rate.toFixed(0)} frames/s, median ${at(0.5).toFixed(1)} ms, 95 % ${at(0.95).toFixed(1)} ms; ` +
				`heap ${kept.toFixed(0)} MB, ${nodes} nodes\n`,
		);
		assert.ok(work < SECOND, `the main thread worked ${work.toFixed(0)} ms`);
		assert.ok(at(0.5) < FRAME * 1.3, `the median frame took ${at(0.5)} ms`);
		assert.ok(kept < 400, `the page keeps ${kept.toFixed(0)} MB`);
		assert.ok(nodes < 20_000, `the page has ${nodes} nodes`);
		await page.context().close();
	} finally {
		await browser.close();
		server.close();
	}
});
