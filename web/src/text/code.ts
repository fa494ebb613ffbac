// Code in its parts: words of the language, texts, numbers and comments. Forty lines of rules for all languages together
// and no grammar of any: enough to find one's way in a change, small, and in linear time whatever the text is.

export type Kind = 'word' | 'text' | 'comment' | null;

export interface Token {
	text: string;
	kind: Kind;
}

interface Language {
	line: string[];
	block: [string, string][];
	/** Texts that end with their line, and those that go over several. */
	quotes: string;
	long: [string, string][];
	words: Set<string>;
}

const set = (...words: string[]) => new Set(words.join(' ').split(' '));
const common =
	'break case catch class const continue default do else enum false finally for if import new null private protected public return static super switch this throw true try void while';
const c: Omit<Language, 'words'> = { line: ['//'], block: [['/*', '*/']], quotes: '"\'', long: [] };
const hash: Omit<Language, 'words'> = { line: ['#'], block: [], quotes: '"\'', long: [] };

const languages: Record<string, Language> = {
	js: {
		...c,
		long: [['`', '`']],
		words: set(
			common,
			'abstract as async await declare delete export extends from function get implements in instanceof interface let namespace of readonly satisfies set type typeof undefined var with yield',
		),
	},
	rust: {
		...c,
		// A lifetime begins as a letter in quotes does.
		quotes: '"',
		words: set(
			'as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while',
		),
	},
	go: {
		...c,
		long: [['`', '`']],
		words: set(
			'break case chan const continue default defer else fallthrough false for func go goto if import interface iota map nil package range return select struct switch true type var',
		),
	},
	python: {
		...hash,
		long: [
			['"""', '"""'],
			["'''", "'''"],
		],
		words: set(
			'and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return True try while with yield self',
		),
	},
	c: {
		...c,
		words: set(
			common,
			'abstract alignas as auto bool boolean byte char companion constexpr data delegate delete double echo explicit extends extern final float fun func function goto guard implements in inline instanceof int interface internal is let long mutable namespace native nullptr object operator out override package readonly record register required sealed short signed sizeof string struct synchronized template throws trait typedef typename typeof union unsigned use using val var virtual volatile when where yield',
		),
	},
	ruby: {
		...hash,
		words: set(
			'alias and begin break case class def defined? do else elsif end ensure false for if in module next nil not or private raise redo require rescue retry return self super then true undef unless until when while yield',
		),
	},
	shell: {
		...hash,
		words: set(
			'case do done elif else esac exec exit export fi for function if in local readonly return set shift then trap unset until while FROM RUN COPY ADD CMD ENTRYPOINT ENV ARG WORKDIR EXPOSE USER VOLUME',
		),
	},
	sql: {
		line: ['--'],
		block: [['/*', '*/']],
		quotes: '"\'',
		long: [],
		words: set(
			'add all alter and as asc begin between by case check column commit constraint create default delete desc distinct drop else end exists foreign from group having in index insert into is join key left like limit not null on or order outer primary references right rollback select set table then union unique update values view when where with',
		),
	},
	lua: {
		line: ['--'],
		block: [['--[[', ']]']],
		quotes: '"\'',
		long: [['[[', ']]']],
		words: set(
			'and break do else elseif end false for function goto if in local nil not or repeat return then true until while',
		),
	},
	data: { ...hash, words: set('true false null yes no') },
	style: { line: [], block: [['/*', '*/']], quotes: '"\'', long: [], words: set('important') },
	markup: { line: [], block: [['<!--', '-->']], quotes: '"\'', long: [], words: new Set() },
};

const endings: Record<string, string> = {
	js: 'js jsx ts tsx mjs cjs mts cts vue svelte',
	rust: 'rs',
	go: 'go',
	python: 'py pyi',
	c: 'c h cc cpp cxx hpp hh java kt kts cs swift php scala dart m mm groovy gradle proto zig',
	ruby: 'rb rake gemspec',
	shell: 'sh bash zsh fish dockerfile makefile mk',
	sql: 'sql',
	lua: 'lua',
	data: 'json yaml yml toml ini cfg conf properties env lock tf',
	style: 'css scss less',
	markup: 'html htm xml svg',
};

const byEnding = new Map(
	Object.entries(endings).flatMap(([name, all]) => all.split(' ').map((ending) => [ending, languages[name]] as const)),
);

/** The language of a file, by its name. */
export function languageOf(path: string): Language | null {
	const name = path.slice(path.lastIndexOf('/') + 1).toLowerCase();
	return byEnding.get(name.slice(name.lastIndexOf('.') + 1)) ?? null;
}

/** What goes on from one line to the next: how it ends, and what it is. */
export type Open = { end: string; kind: 'text' | 'comment' } | null;

/** Longer lines are not code that somebody reads. */
const LONG = 2000;

/** A line in its parts, where the one before it left `open`. */
export function tokens(line: string, language: Language, open: Open): { tokens: Token[]; open: Open } {
	if (line.length > LONG) return { tokens: [{ text: line, kind: null }], open };
	const found: Token[] = [];
	let at = 0;
	let plain = 0;
	const put = (to: number, kind: Kind) => {
		if (at > plain) found.push({ text: line.slice(plain, at), kind: null });
		if (to > at) found.push({ text: line.slice(at, to), kind });
		at = to;
		plain = to;
	};
	const until = (end: string, from: number) => {
		const place = line.indexOf(end, from);
		return place < 0 ? -1 : place + end.length;
	};
	let state = open;
	while (at < line.length) {
		if (state) {
			const end = until(state.end, at);
			const { kind } = state;
			if (end >= 0) state = null;
			put(end < 0 ? line.length : end, kind);
			continue;
		}
		const block = language.block.find(([begin]) => line.startsWith(begin, at));
		const long = block ? undefined : language.long.find(([begin]) => line.startsWith(begin, at));
		const over = block ?? long;
		if (over) {
			const kind = block ? 'comment' : 'text';
			const end = until(over[1], at + over[0].length);
			if (end < 0) state = { end: over[1], kind };
			put(end < 0 ? line.length : end, kind);
			continue;
		}
		if (language.line.some((begin) => line.startsWith(begin, at))) {
			// In a shell, and in addresses, the sign can stand within a word.
			if (line[at] !== '#' || at === 0 || /\s/.test(line[at - 1] ?? '')) {
				put(line.length, 'comment');
				continue;
			}
		}
		const letter = line[at] ?? '';
		if (language.quotes.includes(letter)) {
			let end = at + 1;
			while (end < line.length && line[end] !== letter) end += line[end] === '\\' ? 2 : 1;
			put(Math.min(line.length, end + 1), 'text');
			continue;
		}
		const word = /[\w$]+/y;
		word.lastIndex = at;
		const name = word.exec(line)?.[0];
		if (!name) {
			at += 1;
			continue;
		}
		if (/^\d/.test(name)) put(at + name.length, 'text');
		else if (language.words.has(name)) put(at + name.length, 'word');
		else at += name.length;
	}
	put(line.length, null);
	return { tokens: found, open: state };
}

/** The parts of the lines of a change: each side by itself, since a comment that one has the other may not have. */
export function tokensOf<L extends { kind: string; text: string }>(lines: L[], path: string): Map<L, Token[]> {
	const language = languageOf(path);
	const all = new Map<L, Token[]>();
	if (!language) return all;
	for (const other of ['add', 'remove']) {
		let open: Open = null;
		for (const line of lines) {
			if (line.kind === other) continue;
			const read = tokens(line.text, language, open);
			open = read.open;
			all.set(line, read.tokens);
		}
	}
	return all;
}
