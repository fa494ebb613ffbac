// Pictures of every page, light and dark and as on a phone, into screenshots/; with --docs a few small ones for the README.
// node tests/browser/screenshots.mjs [--docs]
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { appOf, startBrowser } from '../support/browser.mjs';
import { startServer } from '../support/server.mjs';

const web = resolve(import.meta.dirname, '../..');
const into = join(web, 'screenshots');
const docs = resolve(web, '../docs/pictures');
mkdirSync(into, { recursive: true });

const server = await startServer();
const app = await appOf(server);
const browser = await startBrowser();

const begin = async (environment, prompt) => (await server.call('POST', '/sessions', { environment, prompt })).id;
const fixed = await begin('shop', 'The cart total is off by one cent');
const asked = await begin('free', 'Which currency do we use?');
const careful = await begin('careful', 'Please rename the package');
const tidy = await begin('free', 'Please tidy the shop up');
await server.status(fixed, 'done');
await server.status(asked, 'waiting');
await server.status(careful, 'waiting');
await server.status(tidy, 'done');
const quick = await begin('free', 'Is there anything to change in the cart?');
await server.status(quick, 'done');
/** One that works just now: it is stopped and put away when it was looked at. */
async function working() {
	const id = await begin('free', 'Please run something long');
	await server.call('POST', `/sessions/${id}/prompts`, { prompt: 'Then say what it printed last' });
	const done = async () => {
		await server.call('POST', `/sessions/${id}/stop`, { pause: true });
		await server.call('PATCH', `/sessions/${id}`, { archived: true });
	};
	return [`/s/${id}`, done];
}
await server.call('PUT', '/environments/storefront', {
	repos: [{ url: server.repository, branch: 'main' }],
	base: 'host',
	setup: [{ run: 'node --version > .node-version' }],
	checks: [{ name: 'test', run: 'npm test', parser: 'auto' }],
	egress: ['registry.example.com', '*.example.org'],
	secrets: [{ name: 'registry', secret: 'registry-token', hosts: ['registry.example.com'] }],
	instructions: 'Prices are whole cents.',
});
await server.call('POST', '/memory', {
	scope: { kind: 'environment', name: 'storefront' },
	kind: 'fact',
	text: 'Prices are whole cents; totals are rounded half up.',
});
await server.call('PUT', '/secrets/registry-token', { value: 'not-a-real-token' });
await server.call('POST', '/environments/storefront/build', {});
for (let tries = 0; tries < 300; tries += 1) {
	const { state } = await server.call('GET', '/environments/storefront/image');
	if (state === 'ready' || state === 'failed') break;
	await new Promise((done) => setTimeout(done, 200));
}

const shots = {
	sessions: [async () => ['/', (await working())[1]], 'main >> text=Working'],
	new: ['/new', 'text=What is to be done?'],
	working: [working, 'text=line 12 of a long command'],
	finished: [`/s/${fixed}`, '[aria-label=Result]'],
	question: [`/s/${asked}`, 'text=Another answer', true],
	approval: [`/s/${careful}`, 'text=Approve', true],
	changes: [`/s/${fixed}/changes`, 'text=Math.round'],
	review: [`/s/${tidy}/changes`, 'text=A large change'],
	checks: [`/s/${fixed}/checks`, 'text=test'],
	terminal: [`/s/${fixed}/terminal`, '.xterm-rows'],
	files: [`/s/${fixed}/files?path=src&file=src/cart.js`, 'text=export function total'],
	events: [`/s/${fixed}/events`, 'text=turn.finished'],
	statistics: ['/statistics', '.chart canvas'],
	environments: ['/environments', 'text=storefront'],
	image: ['/environments/storefront', 'text=Steps of the'],
	recipe: ['/environments/storefront/recipe', 'text=Set-up'],
	network: ['/environments/storefront/network', 'text=What was refused'],
	secrets: ['/environments/storefront/secrets', 'text=registry-token'],
	memory: ['/environments/storefront/memory', 'text=Prices are whole cents'],
	models: ['/settings', 'text=scripted'],
	budgets: ['/settings/budgets', 'text=All of a session'],
	people: ['/settings/people', 'text=To add somebody'],
	tokens: ['/settings/tokens', 'text=This browser'],
	forges: ['/settings/forges', 'text=not signed in'],
	browser: ['/settings/browser', 'text=Notifications'],
};
const few = {
	light: ['sessions', 'working', 'review', 'statistics'],
	dark: ['changes'],
	phone: ['approval'],
};
const only = process.env.ONLY?.split(',');

for (const [name, how] of Object.entries({ light: {}, dark: { dark: true }, phone: { phone: true } })) {
	const page = await browser.page(how);
	page.setDefaultTimeout(20_000);
	for (const [shot, [path, sign, loose]] of Object.entries(shots)) {
		if (only && !only.includes(shot)) continue;
		const [address, done] = typeof path === 'function' ? await path() : [path];
		await page.goto(app.url + address);
		const there = loose ? page.locator(sign).or(page.getByPlaceholder(sign.replace('text=', ''))) : page.locator(sign);
		await there
			.first()
			.waitFor({ state: 'attached' })
			.catch(() => process.stderr.write(`${name} ${shot}: no ${sign}\n`));
		await page.waitForTimeout(400);
		await page.screenshot({ path: join(into, `${shot}-${name}.png`) });
		if (process.argv.includes('--docs') && few[name].includes(shot)) {
			mkdirSync(docs, { recursive: true });
			const client = await page.context().newCDPSession(page);
			const { data } = await client.send('Page.captureScreenshot', { format: 'webp', quality: 72 });
			writeFileSync(join(docs, `${shot}.webp`), Buffer.from(data, 'base64'));
		}
		await done?.();
	}
	for (const problem of page.problems) process.stderr.write(`${name}: ${problem}\n`);
	await page.context().close();
}
process.stdout.write(`pictures are in ${into}\n`);
await browser.close();
app.close();
await server.stop();
process.exit(0);
