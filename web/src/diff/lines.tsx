// Changed lines, old above new, with the words that differ marked.
import { memo, useMemo } from 'react';
import { visible } from '../text/hidden';
import { plural } from '../ui/format';
import { compareLines, compareWords, type Line, type Piece } from './compare';

const looks = { add: 'bg-add', remove: 'bg-remove', same: '' } as const;
const signs = { add: '+', remove: '−', same: ' ' } as const;
const strong = { add: 'bg-add-strong', remove: 'bg-remove-strong', same: '' } as const;

/** For each line that has a counterpart: its words. */
export function wordsOf(lines: Line[]): Map<Line, Piece[]> {
	const found = new Map<Line, Piece[]>();
	for (let at = 0; at < lines.length; ) {
		if (lines[at]?.kind !== 'remove') {
			at += 1;
			continue;
		}
		let middle = at;
		while (lines[middle]?.kind === 'remove') middle += 1;
		let end = middle;
		while (lines[end]?.kind === 'add') end += 1;
		const pairs = Math.min(middle - at, end - middle);
		for (let one = 0; one < pairs; one += 1) {
			const before = lines[at + one];
			const after = lines[middle + one];
			if (!before || !after) continue;
			const [a, b] = compareWords(before.text, after.text);
			// Lines that have next to nothing in common are better read whole.
			const kept = a.filter((piece) => !piece.changed).reduce((sum, piece) => sum + piece.text.trim().length, 0);
			if (kept * 3 < before.text.trim().length) continue;
			found.set(before, a);
			found.set(after, b);
		}
		at = end;
	}
	return found;
}

/** Longer lines, such as those of code that was made small, are cut. */
const LONG = 4000;

/** `whole`: also a long line is shown to its end. */
export const LineText = memo(function LineText({
	line,
	words,
	whole = false,
}: {
	line: Line;
	words?: Piece[] | undefined;
	whole?: boolean;
}) {
	if (line.text.length > LONG && !whole) {
		return (
			<>
				{visible(line.text.slice(0, LONG))}{' '}
				<span className="text-muted">and {plural(line.text.length - LONG, 'more character')} in this line</span>
			</>
		);
	}
	if (!words) return <>{visible(line.text) || ' '}</>;
	return (
		<>
			{words.map((piece, at) =>
				piece.changed ? (
					<span key={at} className={`rounded-xs ${strong[line.kind]}`}>
						{visible(piece.text)}
					</span>
				) : (
					visible(piece.text)
				),
			)}
		</>
	);
});

export function LineDiff({ before, after, most = 320 }: { before: string; after: string; most?: number }) {
	const lines = useMemo(() => compareLines(before, after), [before, after]);
	const words = useMemo(() => wordsOf(lines), [lines]);
	return (
		<div
			className="code overflow-auto py-1"
			style={{ maxHeight: most }}
			// biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable from the keyboard.
			tabIndex={0}
			role="group"
			aria-label="Changed lines"
		>
			{lines.map((line, at) => (
				<div key={at} className={`flex px-3 ${looks[line.kind]}`}>
					<span className="w-4 shrink-0 text-muted select-none">{signs[line.kind]}</span>
					<span className="min-w-0 flex-1 break-words whitespace-pre-wrap">
						<LineText line={line} words={words.get(line)} />
					</span>
				</div>
			))}
		</div>
	);
}

export { looks, signs };
