import { describe, expect, test } from 'vitest';
import { compareLines, compareWords } from '../../src/diff/compare';
import { parsePatch } from '../../src/diff/parse';
import { shortened, WHOLE } from '../../src/live/shorten';
import { appended, byteLength, KEPT } from '../../src/live/text';
import { plain, spans } from '../../src/text/ansi';
import { hides, visible, visibleName } from '../../src/text/hidden';
import { duration, money, shortDuration } from '../../src/ui/format';

const delta = (offset: number, text: string) => ({ item: 'i', channel: 'stdout' as const, offset, text });

describe('text in pieces', () => {
	test('pieces that follow each other are joined', () => {
		const live = appended(appended(undefined, delta(0, 'grüße ')), delta(byteLength('grüße '), 'Welt'));
		expect(live).toEqual({ text: 'grüße Welt', bytes: byteLength('grüße Welt'), dropped: 0, gap: false });
	});
	test('a piece stands for everything from its offset on', () => {
		const live = appended(appended(undefined, delta(0, 'äöü and more')), delta(byteLength('äöü'), '!'));
		expect(live.text).toBe('äöü!');
		expect(appended(live, delta(0, 'anew')).text).toBe('anew');
	});
	test('a gap is told', () => expect(appended(undefined, delta(10, 'late')).gap).toBe(true));
	test('what is long keeps its end', () => {
		let live = appended(undefined, delta(0, ''));
		for (let at = 0; at < 40; at += 1) live = appended(live, delta(live.bytes, `${'x'.repeat(19_999)}\n`));
		expect(live.text.length).toBeLessThanOrEqual(KEPT);
		expect(live.bytes).toBe(800_000);
		expect(live.dropped + live.text.length).toBe(800_000);
	});
	test('lengths are those of UTF-8', () => {
		for (const text of ['a', 'é', '€', '😀', 'a😀é'])
			expect(byteLength(text)).toBe(new TextEncoder().encode(text).length);
	});
});

test('long outputs are shortened, and say by how much', () => {
	const text = 'line\n'.repeat(5000);
	const frame = shortened({ type: 'item.completed', data: { item: { output: { text, bytes: text.length } } } });
	const { output } = frame.data.item;
	expect(output.text.length).toBeLessThan(WHOLE);
	expect(output.left_out + output.text.length - 2).toBe(text.length);
});

describe('output of programs', () => {
	test('colours are taken, everything else is left out', () => {
		const text =
			'\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07\x1b[2J\x1b[38;5;200mx\x1b[1mbold';
		expect(spans(text)).toEqual([
			{ text: 'red', look: 'text-bad' },
			{ text: ' linkx', look: '' },
			{ text: 'bold', look: 'font-semibold' },
		]);
		expect(plain(text)).toBe('red linkxbold');
	});
	test('a carriage return writes over the line', () => expect(plain('10 %\r 99 %\r\ndone\n')).toBe(' 99 %\ndone\n'));
	test('an escape that never ends hides nothing after the next line', () => expect(plain('a\x1b]0;x')).toBe('a'));
});

describe('diffs', () => {
	test('lines', () => {
		expect(compareLines('a\nb\nc\n', 'a\nx\nc\n').map((line) => line.kind)).toEqual(['same', 'remove', 'add', 'same']);
	});
	test('words', () => {
		const [before, after] = compareWords('return sum;', 'return total;');
		expect(before.filter((piece) => piece.changed)).toEqual([{ text: 'sum', changed: true }]);
		expect(after.filter((piece) => piece.changed)).toEqual([{ text: 'total', changed: true }]);
	});
	test('a patch with odd names, a rename and a binary file', () => {
		const files = parsePatch(
			[
				'diff --git "a/src/\\303\\244 \\"b\\".js" "b/src/\\303\\244 \\"b\\".js"',
				'new file mode 100644',
				'--- /dev/null',
				'+++ "b/src/\\303\\244 \\"b\\".js"',
				'@@ -0,0 +1,2 @@',
				'+--- not a header',
				'+++ nor this',
				'diff --git a/x b/y',
				'similarity index 100%',
				'rename from x',
				'rename to y',
				'diff --git a/p.png b/p.png',
				'Binary files a/p.png and b/p.png differ',
				'',
			].join('\n'),
		);
		expect(files.map(({ path, status, binary, insertions }) => ({ path, status, binary, insertions }))).toEqual([
			{ path: 'src/ä "b".js', status: 'added', binary: false, insertions: 2 },
			{ path: 'y', status: 'renamed', binary: false, insertions: 0 },
			{ path: 'p.png', status: 'modified', binary: true, insertions: 0 },
		]);
	});
});

test('numbers as people read them', () => {
	expect([0, 0.001, 1.239, 1234.5].map(money)).toEqual(['$0', '<$0.01', '$1.24', '$1,235']);
	expect([20, 450, 8_000, 134_000, 3_600_000, 200_000_000].map(duration)).toEqual([
		'0 s',
		'0.5 s',
		'8 s',
		'2 m 14 s',
		'1 h',
		'2 d',
	]);
});

describe('characters that nobody sees', () => {
	test('those that turn text around, have no width or are tags are shown by their numbers', () => {
		expect(visible('exe\u202egnp')).toBe('exe⟨U+202E⟩gnp');
		expect(visible('a\u200bb\ufeff\u{e0041}')).toBe('a⟨U+200B⟩b⟨U+FEFF⟩⟨U+E0041⟩');
		for (const text of ['\u061c', '\u200f', '\u202a', '\u2066', '\u2069', '\u00ad']) expect(hides(text)).toBe(true);
	});
	test('what scripts and emoji are written with stays', () => {
		for (const text of ['שלום', 'مرحبا', '👩‍💻', 'می\u200cخواهم', 'naïve', '\ttab'])
			expect([visible(text), hides(text)]).toEqual([text, false]);
	});
	test('a name has no second line', () => {
		expect(visibleName('a\nb\tc.js')).toBe('a⟨U+000A⟩b⟨U+0009⟩c.js');
	});
});

test('lists have times without unrest', () => {
	expect([8_000, 134_000, 3_900_000].map(shortDuration)).toEqual(['8 s', '2 m', '1 h']);
});
