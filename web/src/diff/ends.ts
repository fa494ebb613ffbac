// Ends of lines, which nobody sees: where they are all that changed, the same lines seem to go and to come back.
import type { Line } from './compare';
import type { FilePatch } from './parse';

const CR = /\r$/;
export const isCrlf = (line: Line) => CR.test(line.text);

/** What became of the ends of lines; null where lines that went have the same ends as those that came. */
export function endsOf(file: FilePatch): { only: boolean; words: string } | null {
	const went: Line[] = [];
	const came: Line[] = [];
	for (const { lines } of file.hunks)
		for (const line of lines)
			if (line.kind === 'remove') went.push(line);
			else if (line.kind === 'add') came.push(line);
	const crlf = [...went, ...came].filter(isCrlf).length;
	if (went.length === 0 || came.length === 0 || crlf === 0 || crlf === went.length + came.length) return null;
	const only =
		went.length === came.length &&
		went.every((line, at) => line.text.replace(CR, '') === came[at]?.text.replace(CR, ''));
	const now = came.every(isCrlf) ? ', now CRLF' : came.some(isCrlf) ? '' : ', now LF';
	return { only, words: `${only ? 'only the ends of lines changed' : 'ends of lines changed'}${now}` };
}
