// What is too long, too deep or nonsense stays where it is: the page answers, and everything beside it goes on.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { startBrowser } from '../support/browser.mjs';
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
const turn = 'trn_1';

/** The log of a session that works on its first prompt. */
function working(more = () => {}) {
	const log = logOf(ID, Date.now() - 5_000);
	const budgets = { session: { usd: 2 }, turn: {} };
	log.put('session.created', { title: 'Hard', environment: 'shop', recipe: { repos: [] }, model: 'main', budgets });
	log.put('prompt.queued', { prompt: 'prm_1', text: 'Do it' }, { kind: 'user', id: 'ana' });
	log.put('turn.started', { turn, prompt: 'prm_1' });
	more(log);
	return log;
}

const message = (id, text) => ({ turn, item: { id, kind: 'message', status: 'completed', text } });

test('a message that no parser can take is shown as it was written, and takes nothing with it', async () => {
	const texts = [
		'>'.repeat(2_000),
		'> '.repeat(3_000),
		'*a_'.repeat(3_500),
		'['.repeat(20_000),
		`${'- '.repeat(5_000)}x`,
	];
	const log = working(({ put }) => {
		put('item.completed', message('itm_0', 'It **begins**.'));
		for (const [at, text] of texts.entries()) put('item.completed', message(`itm_${at + 1}`, text));
		put('item.completed', message('itm_9', 'It *goes* on.'));
	});
	const { url } = await standIn({ sessions: [listed(1, { seq: log.lines.length })], logs: { [ID]: log.lines } });
	const page = await open(`${url}/s/${ID}`);
	await page.locator('em', { hasText: 'goes' }).waitFor();
	await page.getByRole('textbox', { name: 'Queue a follow-up' }).fill('still here');
	assert.equal(await page.getByText('Maximum call stack').count(), 0);
	assert.equal(await page.getByRole('button', { name: 'Try again' }).count(), 0);
	await page.getByLabel('Conversation').press('3');
	await page.waitForURL(/checks/);
});

test('a long message is read while it is written, and the page answers meanwhile', async () => {
	const log = working(({ put }) =>
		put('item.started', { turn, item: { id: 'itm_1', kind: 'message', status: 'running', text: '' } }),
	);
	const stand = await standIn({ sessions: [listed(1, { seq: log.lines.length })], logs: { [ID]: log.lines } });
	const page = await open(`${stand.url}/s/${ID}`);
	await page.getByText('Writing', { exact: true }).first().waitFor();
	await page.evaluate(() => {
		window.longest = 0;
		new PerformanceObserver((list) => {
			for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
		}).observe({ entryTypes: ['longtask'] });
	});
	let offset = 0;
	const say = (text) => {
		stand.tell(ID, { type: 'delta', data: { item: 'itm_1', channel: 'text', offset, text } });
		offset += text.length;
	};
	say('It **begins**.\n\n');
	for (let at = 0; at < 300; at += 1) {
		say(Array.from({ length: 40 }, (_, one) => `*${String.fromCharCode(97 + ((at + one) % 26))}_`).join(''));
		if (at % 10 === 9) await page.waitForTimeout(16);
	}
	say('\n\nIt _ends_.');
	await page.locator('em', { hasText: 'ends' }).waitFor();
	assert.equal(await page.locator('strong', { hasText: 'begins' }).count(), 1);
	const longest = await page.evaluate(() => window.longest);
	assert.ok(longest < 700, `the page stood still for ${longest} ms`);
});

test('what a model wrote is markup that does no harm', async () => {
	const text = [
		'<img src=x onerror=alert(1)><script>alert(1)</script> ![p](https://x.example/p.png)',
		'[a](javascript:alert(1)) [b](data:text/html,x) [c](/s/other) [d](https://d.example) [e][1] [f][2]',
		'[g](//g.example) [h](../h.js) [i](#i) [j](src/j.js)\n\n- [x] done',
		'<svg onload=alert(1)>\n<form action=//x><iframe src=//x>\n<p style="position:fixed" class="fixed" onclick="x()">',
		'[1]: https://e.example/x\n[2]: javascript:alert(2)',
	].join('\n\n');
	const log = working(({ put }) => put('item.completed', message('itm_1', text)));
	const { url } = await standIn({ sessions: [listed(1, { seq: log.lines.length })], logs: { [ID]: log.lines } });
	const page = await open(`${url}/s/${ID}`);
	await page.getByRole('link', { name: 'd', exact: true }).waitFor();
	const found = await page.evaluate(() => {
		const prose = document.querySelector('.prose');
		const all = [...prose.querySelectorAll('*')];
		return {
			tags: [...new Set(all.map((one) => one.tagName))].sort(),
			attributes: [
				...new Set(all.flatMap((one) => (one.closest('.block') === one ? [] : one.getAttributeNames()))),
			].sort(),
			links: [...prose.querySelectorAll('a[href]')].map((one) => [one.getAttribute('href'), one.target, one.rel]),
		};
	});
	assert.deepEqual(found.links, [
		['https://d.example', '_blank', 'noopener noreferrer nofollow'],
		['https://e.example/x', '_blank', 'noopener noreferrer nofollow'],
		[`/s/${ID}/files?path=src&file=src%2Fj.js`, '_blank', 'noopener noreferrer nofollow'],
	]);
	await page.getByText('☑ done').waitFor();
	assert.deepEqual(found.tags, ['A', 'DIV', 'LI', 'P', 'UL']);
	assert.deepEqual(found.attributes, ['href', 'rel', 'target']);
});

test('an address that names no session says so, and a token that is none is asked for again', async () => {
	const { url } = await standIn({
		sessions: [listed(1)],
		answers: { '/api/v1/sessions/nonsense': { code: 'invalid', status: 400, title: 'no id' } },
	});
	const page = await open(`${url}/s/nonsense`);
	await page.getByText('There is no such session').waitFor();
	await page.goto(`${url}/s/${ID.slice(0, -3)}`);
	await page.getByText('There is no such session').waitFor();
	const other = await open(`${url}/#token=100%`);
	await other.getByRole('link', { name: 'Session 1' }).first().waitFor();
	assert.equal(await other.evaluate(() => [localStorage.getItem('slipway.token'), location.hash].join()), '100%,');
});

test('on a phone the list is asked for on every page, so that what needs somebody is told of', async () => {
	const { url } = await standIn({ sessions: [listed(1)] });
	const page = await open(url, { phone: true });
	for (const path of ['/settings/browser', '/environments', '/statistics', '/new']) {
		const asked = page.waitForRequest((request) => new URL(request.url()).pathname === '/api/v1/sessions');
		await page.goto(url + path);
		await asked;
	}
});
