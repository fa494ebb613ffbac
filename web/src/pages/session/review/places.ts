// Where a comment belongs now: numbers of lines move while the agent works, and what a line says goes with it.
import type { Line } from '../../../diff/compare';
import type { FilePatch } from '../../../diff/parse';
import type { Comment } from './marks';

export interface Place {
	path: string;
	line: number | null;
	old: boolean;
	quote: string;
}

/** The line that says what it said when the comment was begun, the nearest one of several; null where there is none. */
export function lineOf(file: FilePatch, place: Place): Line | null {
	let found: Line | null = null;
	let near = Number.POSITIVE_INFINITY;
	for (const hunk of file.hunks) {
		for (const line of hunk.lines) {
			const number = line.new ?? line.old;
			if ((line.new === null) !== place.old || line.text !== place.quote || number === null) continue;
			const far = Math.abs(number - (place.line ?? 0));
			if (far >= near) continue;
			found = line;
			near = far;
		}
	}
	return found;
}

export interface Placed {
	at: Map<Line, Comment[]>;
	/** Comments on lines that are not among the changes any more. */
	lost: Comment[];
}

export function placed(file: FilePatch, comments: Comment[]): Placed {
	const made: Placed = { at: new Map(), lost: [] };
	for (const comment of comments) {
		if (comment.line === null) continue;
		const line = lineOf(file, comment);
		if (line) made.at.set(line, [...(made.at.get(line) ?? []), comment]);
		else made.lost.push(comment);
	}
	return made;
}

/** A comment as it is to be sent: with the number that its line has now, or saying that the line is gone. */
export function asOfNow(files: FilePatch[], comment: Comment): Comment {
	if (comment.line === null) return comment;
	const file = files.find((one) => one.path === comment.path);
	const line = file ? lineOf(file, comment) : null;
	return line ? { ...comment, line: line.new ?? line.old } : { ...comment, gone: true };
}
