// A real browser, and pages of it that fail a test when the page's policy is broken or a script throws.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { startFront } from './dev.mjs';

const programs = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/**
 * The app in front of a server: its own, or where it has none yet, the one that was built here; with SLIPWAY_WEB=dist, or
 * another directory, always that one, so that a change of the app needs no new program.
 */
export async function appOf(server) {
	if (process.env.SLIPWAY_WEB) return startFront(server.url);
	const page = await fetch(server.url).then((answer) => answer.text());
	if (page.includes('id="root"')) return { url: server.url, close: () => undefined };
	return startFront(server.url);
}

export async function startBrowser() {
	const browser = await chromium.launch({
		executablePath: programs.find((path) => path && existsSync(path)),
		args: [
			'--no-sandbox',
			'--disable-dev-shm-usage',
			'--disable-gpu',
			'--disable-quic',
			'--no-first-run',
			'--disable-background-networking',
			'--disable-component-update',
			'--disable-sync',
		],
	});
	return {
		close: () => browser.close(),
		/** A page of its own, as if on another machine. */
		async page({ phone = false, dark = false, width = 1360, height = 850, worker = false } = {}) {
			const context = await browser.newContext({
				viewport: phone ? { width: 390, height: 844 } : { width, height },
				hasTouch: phone,
				isMobile: phone,
				colorScheme: dark ? 'dark' : 'light',
				reducedMotion: 'reduce',
				// Where the app has no server of its own the files come through a stand-in, which does without a worker of its own.
				serviceWorkers: worker ? 'allow' : 'block',
			});
			const page = await context.newPage();
			page.problems = [];
			page.on('pageerror', (error) => page.problems.push(error.message));
			page.on('console', (message) => {
				if (/Content Security Policy|Refused to/.test(message.text())) page.problems.push(message.text());
			});
			return page;
		},
	};
}

/** What is wrong for people who do not see or do not point, in words. */
export async function barriers(page) {
	// The page's policy lets no script in from outside; the one of the tests is put in from underneath.
	const { readFileSync } = await import('node:fs');
	await page.evaluate(readFileSync(axe, 'utf8'));
	const { violations } = await page.evaluate(() =>
		window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }),
	);
	return violations.map(
		(one) =>
			`${one.id}: ${one.nodes
				.map((node) => node.target.join(' '))
				.slice(0, 4)
				.join(' | ')} (${one.help})`,
	);
}
