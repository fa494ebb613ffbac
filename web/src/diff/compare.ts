// The difference of two texts by lines, and of two lines by words. For the small pieces that edits are made of.

export interface Line {
	kind: 'same' | 'add' | 'remove';
	text: string;
	/** Number in the old and the new text, from 1. */
	old: number | null;
	new: number | null;
	/** It is the last one, and has no end. */
	open?: true;
}

/** Longest common subsequence of small lists; of large ones everything between equal ends counts as changed. */
function common<T>(a: T[], b: T[]): boolean[][] {
	const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
	for (let i = a.length - 1; i >= 0; i -= 1) {
		for (let j = b.length - 1; j >= 0; j -= 1) {
			const row = table[i];
			const below = table[i + 1];
			if (!row || !below) continue;
			row[j] = a[i] === b[j] ? (below[j + 1] ?? 0) + 1 : Math.max(below[j] ?? 0, row[j + 1] ?? 0);
		}
	}
	const inA = a.map(() => false);
	const inB = b.map(() => false);
	let i = 0;
	let j = 0;
	while (i < a.length && j < b.length) {
		if (a[i] === b[j]) {
			inA[i++] = true;
			inB[j++] = true;
		} else if ((table[i + 1]?.[j] ?? 0) >= (table[i]?.[j + 1] ?? 0)) i += 1;
		else j += 1;
	}
	return [inA, inB];
}

const LARGE = 800;

export function compareLines(before: string, after: string): Line[] {
	const split = (text: string) => (text === '' ? [] : text.replace(/\n$/, '').split('\n'));
	const a = split(before);
	const b = split(after);
	const small = a.length * b.length <= LARGE * LARGE;
	const [inA = [], inB = []] = small ? common(a, b) : [a.map(() => false), b.map(() => false)];
	const lines: Line[] = [];
	let i = 0;
	let j = 0;
	while (i < a.length || j < b.length) {
		if (i < a.length && !inA[i]) lines.push({ kind: 'remove', text: a[i] ?? '', old: ++i, new: null });
		else if (j < b.length && !inB[j]) lines.push({ kind: 'add', text: b[j] ?? '', old: null, new: ++j });
		else lines.push({ kind: 'same', text: a[i] ?? '', old: ++i, new: ++j });
	}
	return lines;
}

export interface Piece {
	text: string;
	changed: boolean;
}

/** Which words of a line that took another's place are others. */
export function compareWords(before: string, after: string): [Piece[], Piece[]] {
	const split = (text: string) => text.match(/\w+|\s+|[^\w\s]/g) ?? [];
	const a = split(before);
	const b = split(after);
	if (a.length * b.length > 40_000) return [[{ text: before, changed: true }], [{ text: after, changed: true }]];
	const [inA = [], inB = []] = common(a, b);
	return [join(a, inA), join(b, inB)];
}

function join(words: string[], same: boolean[]): Piece[] {
	const pieces: Piece[] = [];
	words.forEach((word, at) => {
		const changed = !same[at];
		const last = pieces.at(-1);
		if (last && last.changed === changed) last.text += word;
		else pieces.push({ text: word, changed });
	});
	return pieces;
}
