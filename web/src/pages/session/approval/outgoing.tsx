// What would go out, in the card that asks for it: the files and their lines, as the review has them.
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { get } from '../../../api/client';
import type { Diff } from '../../../api/types';
import { LineText, looks, signs, wordsOf } from '../../../diff/lines';
import { type FilePatch, parsePatch, withoutCut } from '../../../diff/parse';
import type { SessionStore } from '../../../live/store';
import { visibleName } from '../../../text/hidden';
import { plural } from '../../../ui/format';
import { Icon } from '../../../ui/icons';
import { Failure, Waiting } from '../../../ui/parts';
import { Link, paths } from '../../../ui/router';
import { firstLines, linesOf } from '../review/large';

/** Files that are listed; the review has all. */
const FILES = 8;
/** Lines of all files together up to which they are open, and lines of one that are shown. */
const OPEN = 60;
const LINES = 120;

export function Outgoing({ store, approval }: { store: SessionStore; approval: string }) {
	const diff = useQuery({
		queryKey: ['diff', store.id, 'approval', approval],
		queryFn: ({ signal }) => get<Diff>(`/sessions/${store.id}/diff`, signal),
		staleTime: Number.POSITIVE_INFINITY,
	});
	const files = useMemo(() => parsePatch(withoutCut(diff.data?.patch ?? '').patch), [diff.data]);
	const open = files.reduce((sum, file) => sum + linesOf(file), 0) <= OPEN;
	if (diff.error) return <Failure error={diff.error} again={() => diff.refetch()} className="m-3" />;
	if (!diff.data) return <Waiting>Reading what would go out</Waiting>;
	return (
		<div className="border-t border-line">
			{files.slice(0, FILES).map((file) => (
				<File key={file.path} file={file} session={store.id} open={open} />
			))}
			<p className="px-3 py-2 text-xs text-muted">
				{files.length > FILES && `${plural(files.length - FILES, 'more file')}. `}
				<Link to={paths.session(store.id, 'changes')} className="target inline-flex items-center text-accent underline">
					All changes
				</Link>
			</p>
		</div>
	);
}

function File({ file, session, open }: { file: FilePatch; session: string; open: boolean }) {
	const lines = useMemo(() => firstLines(file.hunks, LINES).flatMap((hunk) => hunk.lines), [file]);
	const words = useMemo(() => wordsOf(lines), [lines]);
	const left = linesOf(file) - lines.length;
	return (
		<details open={open} className="group border-b border-line">
			<summary className="target flex cursor-pointer items-center gap-3 px-3 py-1 text-sm">
				<Icon name="right" size={12} className="text-muted group-open:rotate-90" />
				<span className="code min-w-0 flex-1 break-all">{visibleName(file.path)}</span>
				<span className="tabular text-xs whitespace-nowrap">
					<span className="text-good">+{file.insertions}</span> <span className="text-bad">−{file.deletions}</span>
				</span>
			</summary>
			<div className="code pb-1">
				{lines.map((line, at) => (
					<div key={at} className={`flex px-3 ${looks[line.kind]}`}>
						<span className="w-4 shrink-0 text-muted select-none">{signs[line.kind]}</span>
						<span className="min-w-0 flex-1 break-words whitespace-pre-wrap">
							<LineText line={line} words={words.get(line)} />
						</span>
					</div>
				))}
				{(left > 0 || lines.length === 0) && (
					<p className="px-3 py-1 font-sans text-xs text-muted">
						{lines.length === 0 ? 'No lines to show. ' : `${plural(left, 'more line')}. `}
						<Link to={paths.line(session, file.path)} className="target inline-flex items-center text-accent underline">
							See it in the changes
						</Link>
					</p>
				)}
			</div>
		</details>
	);
}
