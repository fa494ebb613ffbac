import { describe, expect, test } from 'vitest';
import { changesOf, patchOf } from '../../src/diff/calls';
import { parsePatch } from '../../src/diff/parse';
import { describeCall } from '../../src/live/derive';
import { shortened } from '../../src/live/shorten';
import { linesFor } from '../../src/pages/environments/lines';
import { warmth } from '../../src/pages/new-session/warm';

const shown = (tool: string, input: unknown) =>
	changesOf(tool, input)?.map((file) => [
		file.path,
		file.status,
		file.hunks.flatMap((hunk) => hunk.lines.map((line) => `${line.kind[0]}${line.text}`)),
	]);

describe('what a call changes', () => {
	test('an edit is understood by all the names that the agent understands', () => {
		const expected = [['a.py', 'modified', ['rone', 'atwo']]];
		for (const input of [
			{ path: 'a.py', old: 'one', new: 'two' },
			{ file_path: 'a.py', old_string: 'one', new_string: 'two' },
			{ file: 'a.py', old_str: 'one', new_str: 'two' },
			{ filename: 'a.py', old_text: 'one', new_text: 'two' },
		])
			expect(shown('edit', input)).toEqual(expected);
		expect(shown('write', { file: 'a', contents: 'x\ny\n' })).toEqual([['a', 'modified', ['ax', 'ay']]]);
	});
	test('a patch is read in sections and as git writes it', () => {
		const sections =
			'*** Begin Patch\n*** Update File: src/a.js\n*** Move to: src/b.js\n@@ function f() {\n same\n-old\n+new\n*** Add File: c.txt\n+hello\n*** Delete File: d.txt\n*** End Patch\n';
		expect(shown('apply_patch', { input: sections })).toEqual([
			['src/b.js', 'renamed', ['ssame', 'rold', 'anew']],
			['c.txt', 'added', ['ahello']],
			['d.txt', 'deleted', []],
		]);
		expect(patchOf(sections)[0]).toMatchObject({ oldPath: 'src/a.js', insertions: 1, deletions: 1 });
		const plain =
			'--- a/x.txt\n+++ b/x.txt\n@@ -1,2 +1,2 @@\n-one\n+two\n same\n--- a/y.txt\n+++ b/y.txt\n@@ -1 +1 @@\n-p\n+q\n';
		expect(shown('apply_patch', { patch: plain })).toEqual([
			['x.txt', 'modified', ['rone', 'atwo', 'ssame']],
			['y.txt', 'modified', ['rp', 'aq']],
		]);
		expect(describeCall('apply_patch', { patch: sections }).object).toBe('src/b.js, c.txt, d.txt');
		expect(shown('apply_patch', { patch: 'no patch at all' })).toBeUndefined();
	});
});

test('a change of the last end of line says what it is', () => {
	const files = parsePatch(
		'diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+two\n\\ No newline at end of file\ndiff --git a/b b/b\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+x\n',
	);
	expect(files.map((file) => file.hunks[0]?.lines.map((line) => [line.kind, line.open === true]))).toEqual([
		[
			['same', false],
			['remove', false],
			['add', true],
		],
		[
			['remove', true],
			['add', false],
		],
	]);
});

test('the end of what a check printed says how much of it was left out', () => {
	const tail = 'line of output\n'.repeat(300);
	const frame = shortened({ type: 'item.completed', data: { item: { report: { tail } } } });
	const { report } = frame.data.item;
	expect(report.left_out + report.tail.length - 2).toBe(tail.length);
});

test('a sandbox is ready when there is one, and else it is said what is in the way', () => {
	const pool = (ready: number, starting: number) => ({ ready, starting });
	const building = {
		state: 'building' as const,
		steps: [
			{ title: 'base', kind: 'base' as const, state: 'cached' as const },
			{ title: 'sleep 88\nmore', kind: 'setup' as const, state: 'running' as const },
		],
	};
	const before = { state: 'building', what: '', since: 5 } as const;
	expect(warmth(pool(0, 0), building, before)).toEqual({ state: 'building', what: 'step 2 of 2, sleep 88', since: 5 });
	expect(warmth(pool(0, 1), { state: 'ready' }, before)).toEqual({ state: 'starting' });
	expect(warmth(pool(1, 0), { state: 'ready' }, before)).toEqual({ state: 'ready' });
	expect(warmth(pool(0, 0), { state: 'failed' }, before)).toEqual({ state: 'cold' });
});

test('lines for the configuration file can be read by it, whatever the names', () => {
	expect(linesFor('shop', ['a.example.com', '*.b.example:8443'])).toBe(
		'[environments.shop]\negress = ["a.example.com", "*.b.example:8443"]\n',
	);
	expect(linesFor('my shop', ['x'])).toContain('[environments."my shop"]');
});
