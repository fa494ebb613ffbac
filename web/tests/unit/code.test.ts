import { expect, test } from 'vitest';
import { languageOf, type Open, tokens, tokensOf } from '../../src/text/code';

/** What is marked in a text, line by line. */
function marked(path: string, text: string) {
	const language = languageOf(path);
	if (!language) return null;
	let open: Open = null;
	return text.split('\n').map((line) => {
		const read = tokens(line, language, open);
		open = read.open;
		expect(read.tokens.map((token) => token.text).join('')).toBe(line);
		return read.tokens.filter((token) => token.kind).map((token) => `${token.kind} ${token.text}`);
	});
}

test('words of the language, texts and comments are told apart', () => {
	expect(marked('src/a.ts', 'const url = "https://x"; // so')).toEqual([
		['word const', 'text "https://x"', 'comment // so'],
	]);
	expect(marked('a.py', 'def f(): return "a\\"b" # c')).toEqual([
		['word def', 'word return', 'text "a\\"b"', 'comment # c'],
	]);
	expect(marked('a.rs', "fn f<'a>(x: &'a str) -> u8 { 'x'; 42 }")).toEqual([['word fn', 'text 42']]);
	expect(marked('run.sh', 'echo a#b ${#x} # c')).toEqual([['comment # c']]);
	expect(marked('Dockerfile', 'RUN make')).toEqual([['word RUN']]);
	expect(marked('notes.txt', 'if')).toBeNull();
});

test('what goes over several lines goes on', () => {
	expect(marked('a.js', '/* one\ntwo */ let x = `a\nb`')).toEqual([
		['comment /* one'],
		['comment two */', 'word let', 'text `a'],
		['text b`'],
	]);
	// A comment that was begun on one side of a change is none of the other's.
	const lines = [
		{ kind: 'remove', text: '/* old' },
		{ kind: 'add', text: 'let x' },
		{ kind: 'same', text: 'return x' },
	];
	const found = tokensOf(lines, 'a.js');
	expect(lines.map((line) => found.get(line)?.map((token) => token.kind))).toEqual([
		['comment'],
		['word', null],
		['word', null],
	]);
});

test('it takes linear time', () => {
	const begun = performance.now();
	for (const text of ['"'.repeat(2000), '/*'.repeat(1000), '\\"'.repeat(1000), 'a'.repeat(2000)])
		for (let at = 0; at < 50; at += 1) marked('a.js', text);
	expect(performance.now() - begun).toBeLessThan(2000);
});
