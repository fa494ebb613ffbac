// The pages around sessions, and the review: with a real server, real sandboxes and the scripted model.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { barriers } from '../support/browser.mjs';
import { app, browser, open, pages, server } from '../support/stage.mjs';

test('changes are reviewed file by file, commented on and delivered', async () => {
	const { id } = await server.call('POST', '/sessions', { environment: 'free', prompt: 'Please tidy the shop up' });
	await server.status(id, 'done');
	const page = await open(`/s/${id}/changes`);
	const tree = page.getByRole('navigation', { name: 'Changed files' });
	await tree.getByRole('button', { name: /cents\.js/ }).waitFor();

	// Every kind of change says what it is.
	const file = (name) => page.getByRole('region', { name, exact: true });
	await file('docs/shop.md').getByText('Moved, with the same content.').waitFor();
	await file('data.bin').getByText('A binary file').waitFor();
	await file('package.json').getByText('Only its mode changed.').waitFor();
	await file('numbers.txt').getByText('A large change of 3,000 lines.').waitFor();
	await file('numbers.txt').getByRole('button', { name: 'Show it' }).click();
	await file('numbers.txt').getByText('2999', { exact: true }).first().waitFor();
	const pictures = file('logo.png').getByRole('img');
	await pictures.nth(1).waitFor();
	assert.deepEqual(await pictures.evaluateAll((all) => all.map((one) => one.naturalWidth)), [16, 16]);
	await file('logo.png').getByText('Over each other').click();
	await page.getByLabel('How much of the new image is shown').fill('20');

	// Split by the width, unified when wanted.
	const shown = page.getByRole('radiogroup', { name: 'How changes are shown' });
	await shown.getByRole('radio', { name: 'Unified' }).click();
	assert.equal(await shown.getByRole('radio', { name: 'Unified' }).getAttribute('aria-checked'), 'true');
	assert.deepEqual(await barriers(page), []);

	// Marks of what was viewed stay, and fold the file.
	await page.getByLabel('Viewed data.bin').check();
	await file('data.bin').getByText('A binary file').waitFor({ state: 'detached' });
	await page.keyboard.press(']');
	await page.reload();
	await tree.getByRole('button', { name: /data\.bin\s*, viewed/ }).waitFor();

	// Comments go together, as one prompt.
	await page.getByLabel('Search changed files').fill('cents');
	await tree.getByRole('button', { name: /cents\.js/ }).click();
	await file('src/cents.js').getByRole('button', { name: 'Comment on line 1' }).click();
	await page.getByLabel('Comment on line 1').last().fill('Say what a hundred stands for');
	await page.keyboard.press('Control+Enter');
	await file('src/cents.js').getByText('not sent yet').waitFor();
	await file('src/cents.js').getByRole('button', { name: 'Comment on src/cents.js', exact: true }).click();
	await page.getByLabel('Comment on src/cents.js').last().fill('And is it used?');
	await page.getByRole('button', { name: 'Comment', exact: true }).click();
	await page.getByRole('button', { name: 'Send 2 comments' }).click();
	await page.waitForURL((url) => !url.pathname.endsWith('changes'));
	await page.getByText('The comments are taken up.').first().waitFor();
	await server.status(id, 'done');

	// One turn alone.
	await page.goto(`${app.url}/s/${id}/changes`);
	await page.getByLabel('Which changes').selectOption({ index: 2 });
	await page.getByText('1 file', { exact: false }).first().waitFor();
	await file('src/cents.js').getByText('Cents of a unit').waitFor();

	// The pull request before it is one.
	await page
		.getByRole('button', { name: /^Deliver/ })
		.first()
		.click();
	const dialog = page.getByRole('dialog', { name: 'Delivery' });
	await dialog.getByRole('article', { name: 'The pull request' }).waitFor();
	await dialog.getByText(/into main/).waitFor();
	assert.deepEqual(await barriers(page), []);
	await dialog.getByRole('button', { name: /^Deliver/ }).click();
	await dialog.waitFor({ state: 'detached' });
	await page
		.getByText(/is pushed/)
		.first()
		.waitFor();
	const session = await server.call('GET', `/sessions/${id}`);
	assert.equal(session.delivery.state, 'pushed');
});

test('the review fits a phone', async () => {
	const { sessions } = await server.call('GET', '/sessions?q=tidy');
	const page = await open(`/s/${sessions[0].id}/changes`, { phone: true });
	await page.getByRole('region', { name: 'src/cents.js' }).waitFor();
	assert.equal(await page.getByRole('radiogroup', { name: 'How changes are shown' }).count(), 0, 'unified only');
	await page.getByRole('button', { name: 'Files', exact: true }).tap();
	await page
		.getByRole('dialog', { name: 'Changed files' })
		.getByRole('button', { name: /numbers/ })
		.tap();
	await page.getByText('A large change').waitFor();
	assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390);
	assert.deepEqual(await barriers(page), []);
});

test('files of the workspace are listed and read, and a drawing in them does nothing', async () => {
	const { id } = await server.call('POST', '/sessions', { environment: 'free', prompt: 'Be hostile to the files' });
	await server.status(id, 'done', 'escalated', 'failed');
	const page = await open(`/s/${id}/files`);
	await page.getByRole('link', { name: 'src', exact: true }).click();
	await page.getByRole('link', { name: /cart\.js/ }).click();
	await page.getByText('export function total').waitFor();
	// A finding in a line that did not change leads to that line of the file.
	await page.goto(`${app.url}/s/${id}/changes?file=src/cart.js&line=8`);
	await page.getByText('src/cart.js is none of the files that changed.').waitFor();
	await page.getByRole('link', { name: 'See the file' }).click();
	const line = page.locator('[data-line="8"]');
	await line.getByText('export function count').waitFor();
	assert.match(await line.getAttribute('class'), /outline-needs/);
	assert.deepEqual(await barriers(page), []);
	await page.goto(`${app.url}/s/${id}/files?file=drawing.svg`);
	await page.getByText('onload').first().waitFor();
	await page.goto(`${app.url}/s/${id}/changes`);
	const drawing = page.getByRole('region', { name: 'drawing.svg' }).getByRole('img');
	await drawing.waitFor();
	await page.waitForFunction((image) => image.complete, await drawing.elementHandle());
	assert.equal(await page.evaluate(() => window.__hacked), undefined);
	const raw = await fetch(`${server.url}/api/v1/sessions/${id}/file?path=drawing.svg`);
	assert.equal(raw.headers.get('content-type'), 'text/plain; charset=utf-8');
	assert.match(raw.headers.get('content-security-policy'), /sandbox/);
});

test('an environment is made, changed, built and shown', async () => {
	const page = await open('/environments');
	await page.getByRole('link', { name: /careful/ }).waitFor();
	await page.getByRole('button', { name: 'New environment' }).click();
	await page.getByLabel('Name').fill('mine');
	await page.getByLabel('Repository').fill('/nowhere/at/all');
	await page.getByRole('button', { name: 'Make it' }).click();
	await page.getByRole('alert').waitFor();
	await page.getByLabel('Repository').fill(server.repository);
	await page.getByRole('button', { name: 'Make it' }).click();
	await page.waitForURL(/environments\/mine\/recipe/);

	await page.getByRole('button', { name: 'Add a check' }).click();
	await page.getByText('a check has no name or no command').waitFor();
	assert.ok(await page.getByRole('button', { name: 'Save' }).isDisabled());
	await page.getByLabel('Name of check 1').fill('test');
	await page.getByLabel('Command of check 1').fill('npm test');
	await page.getByText('It can be used').waitFor();
	await page.getByRole('button', { name: 'Add a step' }).click();
	await page.getByLabel('Step 1', { exact: true }).fill('echo prepared > prepared.txt');
	await page.getByText('It can be used').waitFor();
	await page.getByRole('button', { name: 'Save' }).click();
	await page.getByText('As it is saved').waitFor();
	assert.deepEqual(await barriers(page), []);
	await page.getByRole('radio', { name: 'JSON' }).click();
	await page.getByLabel('The recipe as JSON').fill('{ "repos": [');
	await page.getByText('This is no JSON').waitFor();
	await page.getByRole('button', { name: 'Undo' }).click();

	await page.getByRole('link', { name: 'Image', exact: true }).click();
	await page.getByRole('button', { name: 'Build now' }).click();
	await page
		.getByRole('region', { name: 'Steps of the build' })
		.getByText(/echo prepared/)
		.waitFor();
	await page.locator('#main').getByText('ready', { exact: true }).waitFor();
	assert.deepEqual(await barriers(page), []);

	await page.getByRole('link', { name: 'Network', exact: true }).click();
	await page.getByLabel('A host to allow').fill('registry.example.com');
	await page.getByRole('button', { name: 'Allow' }).click();
	await page.getByRole('region', { name: 'What can be reached' }).getByText('registry.example.com').waitFor();

	await page.getByRole('link', { name: 'Memory', exact: true }).click();
	await page.getByLabel('Something to remember').fill('The shop is tested with npm test.');
	await page.getByRole('button', { name: 'Remember' }).click();
	await page.getByRole('button', { name: 'Forget it' }).click();
	await page.getByText('Nothing is remembered yet').waitFor();

	await page.goto(`${app.url}/environments/shop/recipe`);
	await page.getByText('written in the configuration file, and changed there').waitFor();
	assert.equal(await page.getByRole('button', { name: 'Save' }).count(), 0);
});

test('what was refused is allowed with one click, and a secret goes in and never comes out', async () => {
	await server.call('PUT', '/environments/closed', {
		repos: [{ url: server.repository, branch: 'main' }],
		base: 'host',
		secrets: [{ name: 'registry', secret: 'registry-token', hosts: ['registry.example.com'] }],
	});
	const page = await open('/environments/closed/secrets');
	await page.getByText('is not set').waitFor();
	await page.getByLabel('Value of registry-token').fill('very-secret-value-1');
	await page.getByRole('button', { name: 'Set', exact: true }).click();
	await page.getByRole('button', { name: 'Replace' }).waitFor();
	assert.equal(await page.getByLabel('Value of registry-token').inputValue(), '');
	assert.doesNotMatch(await page.content(), /very-secret-value-1/);
	const { secrets } = await server.call('GET', '/secrets');
	assert.doesNotMatch(JSON.stringify(secrets), /very-secret/);
	assert.deepEqual(await barriers(page), []);

	const { id } = await server.call('POST', '/sessions', {
		environment: 'closed',
		prompt: 'Please fetch the list of files',
	});
	await server.status(id, 'done');
	await page.goto(`${app.url}/environments/closed/network`);
	await page
		.getByRole('region', { name: 'What was refused' })
		.getByRole('button', { name: /Allow files\.example\.com/ })
		.click();
	await page.getByRole('region', { name: 'What can be reached' }).getByText('files.example.com').waitFor();
	const { egress } = await server.call('GET', '/environments/closed/egress');
	assert.deepEqual(egress, ['files.example.com']);
	assert.deepEqual(await barriers(page), []);
});

test('statistics count what came of sessions, with a table beside every chart', async () => {
	const { id } = await server.call('POST', '/sessions', {
		environment: 'shop',
		prompt: 'The cart total is off by one cent',
	});
	await server.status(id, 'done');
	const page = await open('/statistics');
	await page.getByText(/person is prompting now|people are prompting now/).waitFor();
	const made = await page
		.getByRole('group', { name: 'How far sessions came' })
		.getByRole('row', { name: /Made/ })
		.innerText();
	assert.match(made, /Made\s+[1-9]/);
	const charts = await page.getByRole('img', { name: /the table has the numbers/ }).count();
	assert.equal(charts, 3);
	await page.locator('.chart canvas').first().waitFor();
	await page.getByRole('region', { name: 'By environment' }).getByRole('button', { name: 'shop' }).click();
	await page.waitForURL(/environment=shop/);
	await page.getByRole('radio', { name: '7 days' }).click();
	await page.waitForURL(/days=7/);
	assert.deepEqual(await barriers(page), []);
});

test('a pull request that was merged is counted, with what it cost and how long it took', async () => {
	const { id } = await server.call('POST', '/sessions', {
		environment: 'hosted',
		prompt: 'The cart total is off by one cent',
	});
	await server.status(id, 'done');
	await server.call('POST', `/sessions/${id}/deliver`, {});
	const page = await open('/statistics?environment=hosted');
	const figure = (name) =>
		page
			.locator('dl > div')
			.filter({ has: page.getByText(name, { exact: true }) })
			.locator('dd');
	const funnel = page.getByRole('group', { name: 'How far sessions came' });
	await funnel.getByRole('row', { name: /Opened\s+1/ }).waitFor();
	await funnel.getByRole('row', { name: /Merged\s+0/ }).waitFor();
	for (const name of ['Cost per merged', 'Time to merge']) assert.match(await figure(name).innerText(), /^none yet/);

	await server.forge.merge(server.forge.pulls.at(-1).number, server.url);
	await page.reload();
	await funnel.getByRole('row', { name: /Merged\s+1\s+100 %/ }).waitFor();
	const counted = await server.call('GET', '/statistics?environment=hosted');
	assert.ok(counted.cost_per_merged_usd > 0.01);
	const spent = `$${counted.cost_per_merged_usd.toFixed(2)}`;
	assert.deepEqual((await figure('Merged').innerText()).split('\n'), ['1', '100 % of sessions']);
	assert.deepEqual((await figure('Merged of opened').innerText()).split('\n'), ['100 %', '1 pull request, 0 closed']);
	assert.deepEqual((await figure('Cost per merged').innerText()).split('\n'), [spent, `${spent} in all`]);
	assert.match(await figure('Time to merge').innerText(), /^[\d hms]+\nmedian; nine of ten within [\d hms]+$/);
	for (const by of ['By environment', 'By person', 'By model']) {
		await page
			.getByRole('region', { name: by })
			.getByRole('row', { name: new RegExp(`1\\s+1\\s+\\${spent}$`) })
			.waitFor();
	}
	const { sessions } = await server.call('GET', '/sessions?environment=hosted');
	await page.goto(`${app.url}/?environment=hosted`);
	await page
		.locator('#main')
		.getByRole('link', { name: new RegExp(sessions[0].title) })
		.getByText('merged')
		.waitFor();
	assert.deepEqual(await barriers(page), []);
});

test('somebody signs in at a forge with a code or a token, and out again', async () => {
	const page = await open('/settings/forges');
	const forge = page.getByRole('region', { name: 'github' });
	await forge.getByText('not signed in').waitFor();
	const mine = async () => (await server.call('GET', '/logins')).logins[0].login;

	// A code that was not typed in yet is waited for; what is typed in at the forge ends it.
	await forge.getByRole('button', { name: 'Sign in', exact: true }).click();
	const code = await forge.getByLabel('The code', { exact: true }).innerText();
	await forge.getByText(/it is good for another 14 m/).waitFor();
	assert.equal(
		await forge.getByRole('link').getAttribute('href'),
		`${server.forge.url}/login/device`,
		'where the code is typed in',
	);
	assert.deepEqual(await barriers(page), []);
	assert.equal(await mine(), undefined);
	server.forge.typeIn(code, 'ana');
	await forge.getByText('signed in as ana').waitFor();
	assert.equal(await mine(), 'ana');
	await forge.getByRole('button', { name: 'Sign out' }).click();
	await forge.getByText('not signed in').waitFor();
	assert.equal(await mine(), undefined);

	// A token that the forge does not know is refused; a good one is kept and shown nowhere.
	await forge.getByRole('button', { name: 'Use a token' }).click();
	const field = forge.getByLabel('Your token for github');
	await field.fill('token-of-nobody-at-all');
	await forge.getByRole('button', { name: 'Sign in with it' }).click();
	await forge.getByRole('alert').waitFor();
	assert.equal(await mine(), undefined);
	await field.fill('token-of-ana-at-the-forge');
	await forge.getByRole('button', { name: 'Sign in with it' }).click();
	await forge.getByText('signed in as ana').waitFor();
	assert.doesNotMatch(await page.content(), /token-of-ana-at-the-forge/);
	assert.deepEqual(await barriers(page), []);
	await server.call('DELETE', '/logins/github');
});

test('a model is tested from the settings, and everything else there is shown', async () => {
	const page = await open('/settings');
	await page.getByRole('region', { name: 'main' }).getByRole('button', { name: 'Test' }).click();
	await page.getByRole('region', { name: 'main' }).getByText('It works').waitFor();
	assert.deepEqual(await barriers(page), []);
	for (const [tab, text] of [
		['Budgets', 'All of a session'],
		['Budgets', 'Budgets are in the configuration file'],
		['People', 'People are in the configuration file'],
		['Tokens', 'It answers programs on its own machine'],
		['Tokens', 'Tokens of people are in the configuration file'],
		['Forges', 'pull requests of your prompts are yours'],
		['This browser', 'Not while this tab is in front'],
	]) {
		await page.getByRole('link', { name: tab, exact: true }).click();
		await page.getByText(text).first().waitFor();
		assert.deepEqual(await barriers(page), [], tab);
	}
	await page.getByRole('link', { name: 'This browser' }).click();
	await page.getByRole('radio', { name: 'Dark' }).click();
	assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
});

test('the app can be installed, and its policy lets nothing in', async () => {
	const answer = await fetch(app.url);
	const policy = answer.headers.get('content-security-policy');
	assert.match(policy, /default-src 'none'/);
	assert.doesNotMatch(policy, /unsafe/);
	const manifest = await fetch(`${app.url}/manifest.webmanifest`).then((one) => one.json());
	assert.equal(manifest.display, 'standalone');
	for (const icon of manifest.icons) assert.equal((await fetch(app.url + icon.src)).status, 200);
	const page = await open('/');
	await page.evaluate(() => {
		const script = document.createElement('script');
		script.textContent = 'window.__hacked = 1';
		document.body.append(script);
	});
	assert.equal(
		await page.evaluate(() => window.__hacked),
		undefined,
		'a script that is written into the page does not run',
	);
	page.problems.length = 0;
});

test('notifications tell of what needs somebody, and not while the tab is in front', async () => {
	const page = await browser.page({ worker: true });
	page.setDefaultTimeout(30_000);
	pages.push(page);
	await page.context().grantPermissions(['notifications'], { origin: app.url });
	await page.addInitScript(() => {
		window.__front = true;
		document.hasFocus = () => window.__front;
		// A browser without a screen closes what it would show at once, so what is to be shown is kept here.
		window.__told = [];
		ServiceWorkerRegistration.prototype.showNotification = async (title) => {
			window.__told.push(title);
		};
	});
	await page.goto(`${app.url}/settings/browser`);
	await page.getByRole('button', { name: 'On', exact: true }).click();
	await page.getByRole('button', { name: 'Off', exact: true }).click();
	await page.getByRole('button', { name: 'On', exact: true }).waitFor();
	const told = () => page.evaluate(() => window.__told);
	const ask = async (prompt) => {
		const { id } = await server.call('POST', '/sessions', { environment: 'free', prompt });
		await server.status(id, 'waiting');
		await page.getByRole('region', { name: 'Needs you' }).getByText(prompt).first().waitFor();
		return id;
	};
	await ask('Which currency do we use in front?');
	assert.deepEqual(await told(), []);
	await page.evaluate(() => {
		window.__front = false;
	});
	await ask('Which currency do we use behind?');
	await page.waitForFunction(() => window.__told.length > 0);
	assert.deepEqual(await told(), ['Which currency do we use behind? needs you']);
});
