// How much of a file's change is shown: all of a small one; of a large one what was asked for, piece by piece.
import type { FilePatch, Hunk } from '../../../diff/parse';

/** Files with more changed lines are shown when asked for. */
export const LARGE = 1500;
/** As many lines of such a file are shown at once, and as many more each time that it is asked for. */
export const STEP = 3000;

export const linesOf = (file: FilePatch) => file.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);

/** The beginning of a change: as many pieces and lines as may be shown. */
export function firstLines(hunks: Hunk[], most: number): Hunk[] {
	const first: Hunk[] = [];
	let left = most;
	for (const hunk of hunks) {
		if (left <= 0) break;
		first.push(hunk.lines.length <= left ? hunk : { ...hunk, lines: hunk.lines.slice(0, left) });
		left -= hunk.lines.length;
	}
	return first;
}

/** How many lines of a file are shown: what was asked for, and at least as far as the line that an address points at. */
export function mostOf(file: FilePatch, asked: number, wanted: number): number {
	const lines = linesOf(file);
	const least = lines <= LARGE ? lines : asked;
	if (!wanted) return least;
	let before = 0;
	for (const hunk of file.hunks) {
		const at = hunk.lines.findIndex((line) => line.new === wanted);
		if (at >= 0) return Math.max(least, Math.ceil((before + at + 1) / STEP) * STEP);
		before += hunk.lines.length;
	}
	return least;
}
