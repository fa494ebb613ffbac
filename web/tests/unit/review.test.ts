import { describe, expect, test } from 'vitest';
import { compareLines } from '../../src/diff/compare';
import { endsOf } from '../../src/diff/ends';
import { parsePatch, withoutCut } from '../../src/diff/parse';
import { pairs } from '../../src/diff/split';
import { draftOf, inputOf } from '../../src/pages/session/approval/call';
import { firstLines, mostOf } from '../../src/pages/session/review/large';
import { promptOf, sumOf } from '../../src/pages/session/review/marks';
import { treeOf } from '../../src/pages/session/review/tree';

const header = (path: string) => `diff --git a/${path} b/${path}\n`;

describe('patches', () => {
	test('modes, copies, submodules and a cut are told', () => {
		const text = [
			`${header('run.sh')}old mode 100644\nnew mode 100755\n`,
			'diff --git a/a b/b\nsimilarity index 90%\ncopy from a\ncopy to b\n',
			`${header('lib')}index 1111111..2222222 160000\n--- a/lib\n+++ b/lib\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n`,
		].join('');
		const files = parsePatch(text);
		expect(files.map(({ path, status, mode, submodule }) => [path, status, mode, submodule])).toEqual([
			['run.sh', 'modified', '100644 to 100755', false],
			['b', 'copied', null, false],
			['lib', 'modified', null, true],
		]);
		const cut = withoutCut(`${text}[the rest is left out: the diff is longer than 8388608 bytes]\n`);
		expect(cut).toEqual({ patch: text, cut: 'the diff is longer than 8388608 bytes' });
		expect(withoutCut(text).cut).toBeNull();
	});
	test('a line that looks like the note of a cut is a line', () => {
		const text = `${header('a')}--- a/a\n+++ b/a\n@@ -0,0 +1 @@\n+[the rest is left out: no]\n`;
		expect(withoutCut(text)).toEqual({ patch: text, cut: null });
	});
});

test('lines that took each other’s place stand in one row', () => {
	const rows = pairs(compareLines('a\nb\nc\nd\n', 'a\nx\ny\nz\nd\n'));
	expect(rows.map(({ left, right }) => [left?.text ?? null, right?.text ?? null])).toEqual([
		['a', 'a'],
		['b', 'x'],
		['c', 'y'],
		[null, 'z'],
		['d', 'd'],
	]);
});

test('folders with nothing beside them are one row', () => {
	const files = parsePatch(['src/a/b/one.js', 'src/a/b/two.js', 'README.md'].map(header).join(''));
	const tree = treeOf(files);
	expect(tree.files.map((file) => file.path)).toEqual(['README.md']);
	expect(tree.branches.map((branch) => [branch.name, branch.files.length])).toEqual([['src/a/b', 2]]);
});

test('a mark of what was viewed is good for what was viewed only', () => {
	const of = (line: string) => {
		const file = parsePatch(`${header('a')}--- a/a\n+++ b/a\n@@ -0,0 +1 @@\n+${line}\n`)[0];
		if (!file) throw new Error('no file');
		return sumOf(file);
	};
	expect(of('one')).toBe(of('one'));
	expect(of('one')).not.toBe(of('two'));
});

test('comments become one prompt that says where each belongs', () => {
	const text = promptOf([
		{ id: '1', path: 'src/a.js', line: 3, old: false, quote: '  return 1;', text: 'Why one?\nAnd not two?' },
		{ id: '2', path: 'src/a.js', line: 9, old: true, quote: 'gone();', text: 'This was needed.' },
		{ id: '3', path: 'b.md', line: null, old: false, quote: '', text: 'Shorter, please.' },
	]);
	expect(text).toBe(
		[
			'Please take up these comments on your changes:',
			'1. src/a.js:3\n   > return 1;\n   Why one?\n   And not two?',
			'2. src/a.js:9 (before the change)\n   > gone();\n   This was needed.',
			'3. b.md\n   Shorter, please.',
		].join('\n\n'),
	);
});

describe('large files', () => {
	const lines = Array.from({ length: 9_000 }, (_, at) => `+line ${at + 1}`).join('\n');
	const file = parsePatch(
		`${header('a')}--- /dev/null\n+++ b/a\n@@ -0,0 +1,9000 @@\n${lines}\n@@ -1,1 +9500,1 @@\n-old\n+new\n`,
	)[0];
	if (!file) throw new Error('no file');
	test('nothing is shown before it is asked for, then as much as was', () => {
		expect(mostOf(file, 0, 0)).toBe(0);
		expect(firstLines(file.hunks, 0)).toEqual([]);
		expect(firstLines(file.hunks, 3000).map((hunk) => hunk.lines.length)).toEqual([3000]);
		expect(firstLines(file.hunks, 9001).map((hunk) => hunk.lines.length)).toEqual([9000, 1]);
	});
	test('a line that an address points at is among those that are shown', () => {
		expect(mostOf(file, 0, 4_000)).toBe(6_000);
		expect(mostOf(file, 0, 9_500)).toBe(12_000);
		expect(mostOf(file, 3_000, 12_345)).toBe(3_000);
	});
});

test('a call that is changed keeps what was text as text, and the rest as it is meant', () => {
	const input = { command: 'npm test', timeout_ms: 1000, env: { A: '1' } };
	const draft = draftOf(input);
	expect(draft).toEqual({ command: 'npm test', timeout_ms: '1000', env: '{"A":"1"}' });
	expect(inputOf(input, draft)).toEqual({ input });
	expect(inputOf(input, { ...draft, command: '5', timeout_ms: '5' })).toEqual({
		input: { ...input, command: '5', timeout_ms: 5 },
	});
	expect(inputOf(input, { ...draft, env: '{' })).toEqual({ wrong: 'env is no JSON' });
});

test('a change of the ends of lines says so, and is told from other changes', () => {
	const ends = (...lines: string[]) =>
		endsOf(
			parsePatch(
				['--- a/x', '+++ b/x', `@@ -1,${lines.length} +1,${lines.length} @@`, ...lines].join('\n'),
			)[0] as never,
		);
	expect(ends('-one', '-two', '+one\r', '+two\r')).toEqual({
		only: true,
		words: 'only the ends of lines changed, now CRLF',
	});
	expect(ends('-one\r', '+one')).toMatchObject({ only: true, words: 'only the ends of lines changed, now LF' });
	expect(ends('-one\r', '-two\r', '+one', '+zwei')).toMatchObject({ only: false });
	expect(ends('-one\r', '+eins\r')).toBeNull();
	expect(ends('-one', '+eins')).toBeNull();
	expect(ends('+one\r', '+two')).toBeNull();
});
