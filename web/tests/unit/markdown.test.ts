// @vitest-environment happy-dom
import { expect, test } from 'vitest';
import { toHtml } from '../../src/text/markdown';
import { definitions, pieces } from '../../src/text/pieces';

const raws = (text: string) => pieces(text).map(({ raw, code }) => (code ? ['code', raw] : raw));

const long = (text: string, length = 30_000) => text.repeat(Math.ceil(length / text.length)).slice(0, length);
const many = (count: number, of: (at: number) => string) => Array.from({ length: count }, (_, at) => of(at)).join('');

/** Texts that take a reader without bounds very long, or more depth than there is. */
const bombs: Record<string, string> = {
	'quotes in quotes': long('>'),
	'quotes with spaces': long('> '),
	'quotes and lists': long('> - '),
	'quotes of lines': many(150, (at) => `${'>'.repeat(at)} a\n`),
	'lists on one line': long('- '),
	'numbers on one line': long('1. '),
	'lists that go deeper': many(200, (at) => `${'  '.repeat(at)}- a\n`),
	'emphasis that is not closed': long('*a_'),
	'emphasis of many words': many(6_000, (at) => `*${String.fromCharCode(97 + (at % 26))}_`),
	'strong that is not closed': long('**a '),
	'signs alone': long('*'),
	'signs and spaces': long('_ * '),
	'struck out': long('~~a'),
	'marks of all lengths': many(240, (at) => `${'`'.repeat(at + 1)} `),
	'brackets open': long('['),
	'brackets open and close': long('[]'),
	'links that do not end': long('[a]('),
	'links in links': `${long('[', 3_000)}a${long('](b)', 12_000)}`,
	'pictures in links': long('![['),
	'labels that nobody named': long('[a][b]'),
	escapes: long('\\*'),
	'angles open': long('<'),
	'tags that do not end': long('<a '),
	'comments that do not end': long('<!--'),
	'addresses in a row': long('www.a.'),
	'addresses and signs': long('http://_*'),
	mails: long('a@'),
	'many letters and a mail sign': `${long('a.b_')}@`,
	entities: long('&amp'),
	'a wide table': `${long('|', 9_000)}\n${long('|-', 18_000)}\n${long('a\n', 3_000)}`,
	'a table of many rows': `|a|b|\n|-|-|\n${long('|*a_|`b|\n')}`,
	'rows without a table': long('|a|\n'),
	'lines under each other': long('a\n'),
	'lines with spaces at the end': long('a  \n'),
	headings: long('# a\n'),
	underlined: long('a\n=\n'),
	rules: long('- - -\n'),
	definitions: many(1_500, (at) => `[a${at}]: http://b\n`),
	'definitions in use': `${many(90, (at) => `[a${at}]: http://${'b'.repeat(200)}\n`)}\n${long('[a1]', 12_000)}`,
	blanks: long(' '),
	tabs: long('\t'),
	'blanks and a letter': `${long(' ', 15_000)}a`,
	'lines of blanks in a list': `- a\n${long('    \n', 20_000)}  b`,
	'quote and lazy lines': `> a\n${long('b\n')}`,
	'quotes and fences': long('> ```\n'),
	'quotes and lists by lines': long('> - a\nb\n'),
	boxes: long('- [ ] *a\n'),
};

/** The markup of all pieces. */
function read(text: string): string {
	const addresses = definitions(text);
	return pieces(text)
		.map(({ raw, code }) => (code ? `<pre><code>${raw}</code></pre>` : toHtml(raw, addresses)?.trim()))
		.join('\n');
}

test.each(Object.entries(bombs))('%s: it comes to an end, as markup or as it was written', (_, text) => {
	const begun = performance.now();
	const made = pieces(text.slice(0, 16_000)).map(({ raw }) => toHtml(raw, definitions(text)));
	expect(performance.now() - begun).toBeLessThan(1500);
	for (const html of made) expect(html?.length ?? 0).toBeLessThan(400_000);
});

test('what goes too deep is there, as it was written', () => {
	const html = toHtml(`${'> '.repeat(2_000)}the end`) ?? '';
	expect(html).toContain('<blockquote>');
	expect(html.split('<blockquote>').length).toBeLessThan(40);
	expect(html).toContain('the end');
	expect(toHtml(`${'*a_'.repeat(3_000)} the end`)).toContain('*a_*a_');
});

test('a text falls into pieces that can be read by themselves', () => {
	expect(raws('one\n\ntwo\nmore\n\n\n# three\n')).toEqual(['one\n', 'two\nmore\n\n', '# three\n']);
	expect(raws('a\n```js\nx\n\n# no heading\n```\nb')).toEqual(['a', ['code', 'x\n\n# no heading'], 'b']);
	expect(raws('~~~~\n```\n~~~\n~~~~~\nb')).toEqual([['code', '```\n~~~'], 'b']);
	expect(raws('```\nnot closed\n\nyet')).toEqual([['code', 'not closed\n\nyet']]);
	// Items with blank lines between them are one list, with what is indented below them.
	const list = '1. one\n\n   more\n\n   ```\n   code\n\n   ```\n2. two\n\n- other';
	expect(raws(`${list}\n\nafter`)).toEqual([`${list}\n`, 'after']);
	expect(raws(' \n\n\t\n')).toEqual([]);
	expect(raws('- an item\n'.repeat(5_000)).every((raw) => raw.length < 8_000)).toBe(true);
});

test('while more is written, pieces that were finished stay as they are', () => {
	const text = 'Hello *you*\n\n- a\n- b\n\n```\ncode\n\nmore\n```\n| a | b |\n|---|---|\n| c | d |\n\nend';
	const whole = pieces(text);
	for (let at = 1; at < text.length; at += 1) {
		const some = pieces(text.slice(0, at)).slice(0, -1);
		expect(some.map(({ raw }) => raw.trim())).toEqual(whole.slice(0, some.length).map(({ raw }) => raw.trim()));
	}
});

test('an address that is named elsewhere in the text is that of the link', () => {
	const text =
		'See [the docs][1], [Guide] and [none][2].\n\n- [x][GUIDE]\n\n[1]: https://a.example/x "T"\n[guide]: <https://b.example>\n[1]: https://other\n[2]: javascript:alert(1)\n';
	const html = read(text);
	expect(html).toContain('<a href="https://a.example/x">the docs</a>');
	expect(html.match(/href="https:\/\/b\.example"/g)).toHaveLength(2);
	expect(html).toContain('[none][2]');
	expect(html).not.toContain('https://other');
	expect(toHtml('[constructor] [a][__proto__] [toString][]', definitions('[__proto__]: https://c.example'))).toContain(
		'[constructor]',
	);
});

test('boxes are signs, ticked or not', () => {
	const html = toHtml('- [x] done\n- [ ] to do\n\n1. [x] first') ?? '';
	for (const item of ['☑ done', '☐ to do', '☑ first']) expect(html).toContain(item);
});

test('addresses of files lead to the files of the session', () => {
	const href = (address: string, session?: string) =>
		/<a href="([^"]*)"/.exec(toHtml(`[x](${address})`, {}, session) ?? '')?.[1]?.replaceAll('&amp;', '&');
	const to = '/s/ses_1/files?';
	for (const [address, file] of [
		['src/cart.js', `${to}path=src&file=src%2Fcart.js`],
		['./src/cart.js#L12', `${to}path=src&file=src%2Fcart.js&line=12`],
		['src/cart.js#L12-L20', `${to}path=src&file=src%2Fcart.js&line=12`],
		['/workspace/src/cart.js:7:2', `${to}path=src&file=src%2Fcart.js&line=7`],
		['README.md:3', `${to}file=README.md&line=3`],
		['a%20b.md', `${to}file=a%20b.md`],
	] as const)
		expect([address, href(address, 'ses_1')]).toEqual([address, file]);
	// What is none keeps its address, of which only those of servers stay in the page.
	for (const address of [
		'https://a.example/x',
		'mailto:a@b.example',
		'//a.example/x',
		'/etc/passwd',
		'../up.js',
		'src/../../up.js',
		'#part',
		'javascript:alert(1)',
		'data:text/html,x',
	])
		expect(href(address, 'ses_1') ?? '').not.toContain('/s/ses_1');
	expect(href('src/cart.js')).not.toContain('/s/');
});
