// A unified diff as git writes it, into files, pieces and lines.
import type { Line } from './compare';

export interface Hunk {
	oldStart: number;
	newStart: number;
	/** What git says the piece is in. */
	context: string;
	lines: Line[];
}

export interface FilePatch {
	path: string;
	oldPath: string | null;
	status: 'added' | 'deleted' | 'modified' | 'renamed' | 'copied';
	binary: boolean;
	/** Where only or also the mode is another one: `100644 to 100755`. */
	mode: string | null;
	/** What git calls the content before and after, where it says so. */
	content: string | null;
	/** Another repository, of which only the commit changed. */
	submodule: boolean;
	insertions: number;
	deletions: number;
	hunks: Hunk[];
}

/** Git puts unusual names into quotes, with escapes of C. */
export function unquote(name: string): string {
	if (!name.startsWith('"')) return name;
	const bytes: number[] = [];
	const inner = name.slice(1, -1);
	const simple: Record<string, string> = {
		n: '\n',
		t: '\t',
		r: '\r',
		'"': '"',
		'\\': '\\',
		a: '\x07',
		b: '\b',
		f: '\f',
		v: '\v',
	};
	const utf8 = new TextEncoder();
	for (let at = 0; at < inner.length; at += 1) {
		if (inner[at] !== '\\') {
			bytes.push(...utf8.encode(inner[at] ?? ''));
			continue;
		}
		const octal = /^[0-7]{3}/.exec(inner.slice(at + 1));
		if (octal) {
			bytes.push(Number.parseInt(octal[0], 8));
			at += 3;
		} else {
			bytes.push(...utf8.encode(simple[inner[at + 1] ?? ''] ?? inner[at + 1] ?? ''));
			at += 1;
		}
	}
	return new TextDecoder().decode(new Uint8Array(bytes));
}

const named = (text: string) => {
	const name = unquote(text.replace(/\t$/, ''));
	return name === '/dev/null' ? null : name.replace(/^[ab]\//, '');
};

/**
 * The name in `a/NAME b/NAME`. Nothing says where the first one ends, and a name may have ` b/` in it; but both are the same,
 * so the second one begins in the middle. Where they are not, what follows says which name it has.
 */
function nameOf(names: string): string {
	const middle = (names.length - 1) / 2;
	const [first, second] = [names.slice(0, middle), names.slice(middle + 1)];
	if (names[middle] === ' ' && named(first) === named(second)) return named(second) ?? '';
	const after = /^(?:"(?:[^"\\]|\\.)*"|.*?) ("b\/.*"|b\/.*)$/.exec(names);
	return named(after?.[1] ?? '') ?? '';
}

/** The last line of a patch that was too long, as the server writes it. */
const CUT = /\n\[the rest is left out: ([^\n]*)\]\n?$/;

/** Why the end of a patch is missing, and the patch without that line. */
export function withoutCut(patch: string): { patch: string; cut: string | null } {
	const found = CUT.exec(patch);
	return found ? { patch: patch.slice(0, found.index + 1), cut: found[1] ?? '' } : { patch, cut: null };
}

/** A file of which nothing is known but its name. */
export const blank = (path: string): FilePatch => ({
	path,
	oldPath: null,
	status: 'modified',
	binary: false,
	mode: null,
	content: null,
	submodule: false,
	insertions: 0,
	deletions: 0,
	hunks: [],
});

export function parsePatch(patch: string): FilePatch[] {
	const files: FilePatch[] = [];
	let file: FilePatch | null = null;
	let hunk: Hunk | null = null;
	let oldLine = 0;
	let newLine = 0;
	let oldLeft = 0;
	let newLeft = 0;
	for (const line of patch.split('\n')) {
		// It says something of the line before it, which may be the last one of its piece.
		if (hunk && line.startsWith('\\')) {
			const last = hunk.lines.at(-1);
			if (last) last.open = true;
			continue;
		}
		if (hunk && (oldLeft > 0 || newLeft > 0) && file) {
			const mark = line[0];
			const text = line.slice(1);
			if (mark === '+') {
				hunk.lines.push({ kind: 'add', text, old: null, new: newLine++ });
				newLeft -= 1;
				file.insertions += 1;
			} else if (mark === '-') {
				hunk.lines.push({ kind: 'remove', text, old: oldLine++, new: null });
				oldLeft -= 1;
				file.deletions += 1;
			} else {
				hunk.lines.push({ kind: 'same', text, old: oldLine++, new: newLine++ });
				oldLeft -= 1;
				newLeft -= 1;
			}
			continue;
		}
		if (line.startsWith('diff --git ')) {
			file = blank(nameOf(line.slice(11)));
			files.push(file);
			hunk = null;
			continue;
		}
		// What diff writes by itself has no line of git before its names.
		if (line.startsWith('--- ') && (!file || file.hunks.length > 0)) {
			file = blank(named(line.slice(4)) ?? '');
			file.status = line.startsWith('--- /dev/null') ? 'added' : 'modified';
			files.push(file);
			hunk = null;
			continue;
		}
		if (!file) continue;
		const start = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/.exec(line);
		if (start) {
			oldLine = Number(start[1]);
			newLine = Number(start[3]);
			oldLeft = start[2] === undefined ? 1 : Number(start[2]);
			newLeft = start[4] === undefined ? 1 : Number(start[4]);
			hunk = { oldStart: oldLine, newStart: newLine, context: start[5] ?? '', lines: [] };
			file.hunks.push(hunk);
		} else if (line.startsWith('new file')) file.status = 'added';
		else if (line.startsWith('deleted file')) file.status = 'deleted';
		else if (line.startsWith('old mode ')) file.mode = line.slice(9);
		else if (line.startsWith('new mode ')) file.mode = `${file.mode} to ${line.slice(9)}`;
		else if (line.startsWith('index ')) {
			file.content = line.slice(6);
			if (line.endsWith(' 160000')) file.submodule = true;
		} else if (line.startsWith('copy from ')) {
			file.status = 'copied';
			file.oldPath = unquote(line.slice(10));
		} else if (line.startsWith('copy to ')) file.path = unquote(line.slice(8));
		else if (line.startsWith('rename from ')) {
			file.status = 'renamed';
			file.oldPath = unquote(line.slice(12));
		} else if (line.startsWith('rename to ')) file.path = unquote(line.slice(10));
		else if (line.startsWith('+++ ')) file.path = named(line.slice(4)) ?? file.path;
		else if (line.startsWith('--- ') && file.status === 'deleted') file.path = named(line.slice(4)) ?? file.path;
		else if (line.startsWith('Binary files') || line.startsWith('GIT binary patch')) file.binary = true;
	}
	return files;
}
