// Old lines beside new ones: lines that took another's place stand in one row.
import type { Line } from './compare';

export interface Pair {
	left: Line | null;
	right: Line | null;
}

export function pairs(lines: Line[]): Pair[] {
	const rows: Pair[] = [];
	for (let at = 0; at < lines.length; ) {
		const line = lines[at];
		if (!line) break;
		if (line.kind === 'same') {
			rows.push({ left: line, right: line });
			at += 1;
			continue;
		}
		let middle = at;
		while (lines[middle]?.kind === 'remove') middle += 1;
		let end = middle;
		while (lines[end]?.kind === 'add') end += 1;
		for (let row = 0; row < Math.max(middle - at, end - middle); row += 1) {
			rows.push({
				left: at + row < middle ? (lines[at + row] ?? null) : null,
				right: middle + row < end ? (lines[middle + row] ?? null) : null,
			});
		}
		at = end;
	}
	return rows;
}
