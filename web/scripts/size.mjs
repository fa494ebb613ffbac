// The budget: what a browser must fetch before it shows anything, and what each part adds that is fetched when needed.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

const ENTRY = 180 * 1024;
const PANEL = 110 * 1024;

const compressed = (path) => statSync(existsSync(`${path}.br`) ? `${path}.br` : path).size;
const page = readFileSync('dist/index.html', 'utf8');
if (/<script(?![^>]*\ssrc=)/.test(page) || /<style/.test(page)) {
	process.stderr.write('index.html has an inline script or style, which the page may not have\n');
	process.exit(1);
}
const first = [...page.matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)].map((match) => match[1]);
const entry = first.reduce((sum, path) => sum + compressed(join('dist', path)), compressed('dist/index.html'));
const kb = (bytes) => `${(bytes / 1024).toFixed(1)} KB`;
let failed = entry > ENTRY;
process.stdout.write(`entry ${kb(entry)} of ${kb(ENTRY)}: ${first.join(', ')}\n`);
for (const name of readdirSync('dist/assets').sort()) {
	if (!/\.(js|css)$/.test(name) || first.includes(`assets/${name}`)) continue;
	const bytes = compressed(join('dist/assets', name));
	if (bytes > PANEL) failed = true;
	process.stdout.write(`${bytes > PANEL ? 'TOO LARGE ' : ''}${name} ${kb(bytes)} of ${kb(PANEL)}\n`);
}
if (failed) process.stderr.write('over the budget\n');
process.exit(failed ? 1 : 0);
