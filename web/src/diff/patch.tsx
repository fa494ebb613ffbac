// The changes of a few files, where they are asked about or were made: each with its name, its counts and its lines.
import { useMemo, useState } from 'react';
import { visible, visibleName } from '../text/hidden';
import { plural } from '../ui/format';
import { endsOf, isCrlf } from './ends';
import { LineText, looks, signs, wordsOf } from './lines';
import type { FilePatch } from './parse';

/** Lines of one file that are shown. */
const LINES = 400;
/** As many more each time that they are asked for. */
const MORE = 2_000;

/** What became of a file, where it did not only change. */
const words: Record<FilePatch['status'], string> = {
	added: 'new file',
	deleted: 'goes',
	modified: '',
	renamed: 'moves',
	copied: 'copied',
};

/** `all`: somebody decides about it, so that nothing of it stays out of reach. */
export function PatchView({ files, most = 360, all = false }: { files: FilePatch[]; most?: number; all?: boolean }) {
	return (
		<div
			className="overflow-auto"
			style={{ maxHeight: most }}
			// biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable from the keyboard.
			tabIndex={0}
			role="group"
			aria-label="Changed lines"
		>
			{files.map((file, at) => (
				<One key={at} file={file} whole={all} />
			))}
		</div>
	);
}

function One({ file, whole }: { file: FilePatch; whole: boolean }) {
	const [shown, setShown] = useState(LINES);
	const own = visibleName(file.path);
	const name = file.oldPath && file.oldPath !== file.path ? `${visibleName(file.oldPath)} → ${own}` : own;
	const ends = useMemo(() => endsOf(file), [file]);
	const all = file.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);
	let left = shown;
	return (
		<section aria-label={name}>
			<p className="sticky top-0 flex items-center gap-3 border-b border-line bg-surface px-3 py-1 text-sm">
				<span className="code min-w-0 flex-1 break-all">{name}</span>
				<span className="text-xs text-muted">
					{[words[file.status], file.mode && `mode ${file.mode}`, ends?.words].filter(Boolean).join(', ')}
				</span>
				<span className="tabular text-xs whitespace-nowrap">
					<span className="text-good">+{file.insertions}</span> <span className="text-bad">−{file.deletions}</span>
				</span>
			</p>
			<div className="code py-1">
				{file.hunks.map((hunk, at) => {
					const lines = hunk.lines.slice(0, Math.max(0, left));
					left -= lines.length;
					if (lines.length === 0) return null;
					const where = [hunk.newStart || hunk.oldStart ? `line ${hunk.newStart || hunk.oldStart}` : '', hunk.context];
					const head = where.filter(Boolean).join(' ');
					return (
						<div key={at}>
							{head && <p className="truncate bg-sunken px-3 py-0.5 text-muted">{visible(head)}</p>}
							<Lines lines={lines} whole={whole} ends={ends !== null} />
						</div>
					);
				})}
				{all > shown && (
					<p className="flex items-center gap-3 px-3 py-1 font-sans text-xs text-muted">
						{plural(all - shown, 'more line')}
						<button type="button" className="target text-accent underline" onClick={() => setShown(shown + MORE)}>
							Show more
						</button>
					</p>
				)}
				{file.binary && (
					<p className="px-3 py-1 font-sans text-xs text-muted">A binary file: its content is not shown.</p>
				)}
				{all === 0 && file.status === 'renamed' && (
					<p className="px-3 py-1 font-sans text-xs text-muted">With the same content.</p>
				)}
			</div>
		</section>
	);
}

function Lines({
	lines,
	whole,
	ends,
}: {
	lines: FilePatch['hunks'][number]['lines'];
	whole: boolean;
	/** Whether lines have other ends than before. */
	ends: boolean;
}) {
	const words = useMemo(() => wordsOf(lines), [lines]);
	return lines.map((line, at) => (
		<div key={at} className={`flex px-3 ${looks[line.kind]}`}>
			<span className="w-4 shrink-0 text-muted select-none">{signs[line.kind]}</span>
			<span className="min-w-0 flex-1 break-words whitespace-pre-wrap">
				<LineText line={line} words={words.get(line)} whole={whole} />
				{ends && line.kind !== 'same' && isCrlf(line) && <CrLf />}
				{line.open && <NoEnd />}
			</span>
		</div>
	));
}

/** Says what cannot be seen: which end a line has. */
export function CrLf() {
	return <span className="ml-2 font-sans text-xs text-muted select-none">CRLF</span>;
}

/** Says what cannot be seen: after this line nothing comes, not even the end of a line. */
export function NoEnd() {
	return <span className="ml-2 font-sans text-xs text-muted select-none">no newline at the end of the file</span>;
}
