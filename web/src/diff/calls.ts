// What a call of the model changes in files, read from what it was given: by the names and in the forms that the agent takes.
import { compareLines } from './compare';
import { blank, type FilePatch, parsePatch } from './parse';

/** Other names of what a call is given, as the agent knows them. */
const names = {
	path: ['path', 'file_path', 'file', 'filename'],
	old: ['old', 'old_string', 'old_str', 'old_text'],
	new: ['new', 'new_string', 'new_str', 'new_text'],
	content: ['content', 'contents', 'text', 'file_text'],
	patch: ['patch', 'input', 'diff'],
	command: ['command', 'cmd'],
} as const;

/** A text that a call was given, under whichever of its names. */
export function given(input: unknown, what: keyof typeof names): string | null {
	const name = nameIn(input, what);
	return name === null ? null : ((input as Record<string, string>)[name] ?? null);
}

function nameIn(input: unknown, what: keyof typeof names): string | null {
	if (!input || typeof input !== 'object') return null;
	return names[what].find((name) => typeof (input as Record<string, unknown>)[name] === 'string') ?? null;
}

/** What a call was given beside what is shown of it: whoever decides about it sees all that would run. */
export function besides(input: unknown, shown: (keyof typeof names)[]): [string, unknown][] {
	if (!input || typeof input !== 'object') return [];
	const known = shown.map((what) => nameIn(input, what));
	return Object.entries(input).filter(([name]) => !known.includes(name));
}

/** The changes of a call; null where it changes no files, or where that cannot be read from it. */
export function changesOf(tool: string, input: unknown): FilePatch[] | null {
	const path = given(input, 'path') ?? '';
	if (tool === 'edit') {
		const [before, after] = [given(input, 'old'), given(input, 'new')];
		return before === null || after === null ? null : [fileOf(path, 'modified', before, after)];
	}
	if (tool === 'write') {
		const content = given(input, 'content');
		return content === null ? null : [fileOf(path, 'modified', '', content)];
	}
	if (tool !== 'apply_patch') return null;
	const patch = given(input, 'patch');
	const files = patch === null ? [] : patchOf(patch);
	return files.length > 0 ? files : null;
}

function fileOf(path: string, status: FilePatch['status'], before: string, after: string): FilePatch {
	const file = empty(path, status);
	// Where in the file it is nobody knows yet.
	const lines = compareLines(before, after).map((line) => ({ ...line, old: null, new: null }));
	file.hunks.push({ oldStart: 0, newStart: 0, context: '', lines });
	return counted(file);
}

const empty = (path: string, status: FilePatch['status']): FilePatch => ({ ...blank(path), status });

function counted(file: FilePatch): FilePatch {
	const count = (kind: string) =>
		file.hunks.reduce((sum, hunk) => sum + hunk.lines.filter((line) => line.kind === kind).length, 0);
	return { ...file, insertions: count('add'), deletions: count('remove') };
}

/** A patch in sections, or as git and diff write it. */
export function patchOf(text: string): FilePatch[] {
	if (!/^\*\*\* /m.test(text)) return parsePatch(text);
	const files: FilePatch[] = [];
	const statuses = { Add: 'added', Delete: 'deleted', Update: 'modified' } as const;
	for (const line of text.replace(/\n$/, '').split('\n')) {
		const file = files.at(-1);
		const head = /^\*\*\* (Add|Delete|Update) File: (.*)$/.exec(line.trimEnd());
		const to = /^\*\*\* Move to: (.*)$/.exec(line.trimEnd());
		if (head) {
			files.push(empty(head[2]?.trim() ?? '', statuses[head[1] as keyof typeof statuses]));
		} else if (to && file) {
			file.oldPath = file.path;
			file.path = to[1]?.trim() ?? file.path;
			file.status = 'renamed';
		} else if (line.startsWith('*** ') || !file) {
			// Where the patch begins and ends.
		} else if (line.startsWith('@@')) {
			const context = line.replace(/^@@\s*/, '').replace(/\s*@@$/, '');
			file.hunks.push({ oldStart: 0, newStart: 0, context, lines: [] });
		} else {
			if (file.hunks.length === 0) file.hunks.push({ oldStart: 0, newStart: 0, context: '', lines: [] });
			const kind = line[0] === '+' ? 'add' : line[0] === '-' ? 'remove' : 'same';
			file.hunks.at(-1)?.lines.push({ kind, text: line.slice(1), old: null, new: null });
		}
	}
	return files.map(counted);
}
