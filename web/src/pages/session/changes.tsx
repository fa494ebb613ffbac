// The review: what the session changed, of one turn or of all, file by file; comments that go back as one prompt; delivery.
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { get, isMissing, query } from '../../api/client';
import type { Diff } from '../../api/types';
import { type FilePatch, parsePatch, withoutCut } from '../../diff/parse';
import type { Turn } from '../../live/state';
import { type SessionStore, useLive } from '../../live/store';
import { visible, visibleName } from '../../text/hidden';
import { plural, time } from '../../ui/format';
import { useKeys } from '../../ui/keys';
import { usePhone } from '../../ui/media';
import { Button, Dialog, Empty, Failure, Segments, Waiting } from '../../ui/parts';
import { Link, paths, useSearch } from '../../ui/router';
import { CommentRow, SendComments } from './review/comments';
import { Deliver } from './review/deliver';
import { LARGE, linesOf } from './review/large';
import { FileList, type FileListHandle } from './review/list';
import { type Comment, isViewed, setViewed, useMarks } from './review/marks';
import { Tree } from './review/tree';

/** From this width on, old and new stand beside each other. */
const WIDE = 800;
/** Lines that are shown without being asked for; the files after them are folded. */
const SHOWN = 4000;
const LOOK = 'slipway.diff';

export default function Changes({ store }: { store: SessionStore }) {
	const steps = useLive(
		store,
		({ state }) =>
			state.turns.length * 10_000 + (state.turns.at(-1)?.steps ?? 0) + (state.turns.at(-1)?.finishedAt ? 5_000 : 0),
	);
	const turns = useLive(store, ({ state }) => state.turns.filter((turn) => turn.id && turn.receipt));
	const prompts = useLive(store, ({ state }) => state.prompts);
	const [search, change] = useSearch();
	const turn = search.get('turn') ?? '';
	const diff = useQuery({
		queryKey: ['diff', store.id, turn, turn ? 0 : steps],
		queryFn: ({ signal }) => get<Diff>(`/sessions/${store.id}/diff${query({ turn })}`, signal),
		placeholderData: keepPreviousData,
	});
	// What was read before stays where the next answer does not come: somebody may be writing in it.
	const last = useRef<{ turn: string; diff: Diff } | null>(null);
	if (diff.data && !diff.isPlaceholderData) last.current = { turn, diff: diff.data };
	const data = diff.data ?? (last.current?.turn === turn ? last.current.diff : undefined);
	const read = useMemo(() => {
		const { patch, cut } = withoutCut(data?.patch ?? '');
		return { files: parsePatch(patch), cut };
	}, [data]);
	const named = turns
		.filter((one) => one.receipt?.files_changed)
		.map((one) => ({ id: one.id, name: nameOf(turns, one, prompts.get(one.prompt ?? '')?.text ?? 'a turn') }));
	const choice =
		named.length > 1 || turn ? (
			<select
				aria-label="Which changes"
				className="field w-auto max-w-56"
				value={turn}
				onChange={(event) => change({ turn: event.target.value || null, file: null, line: null })}
			>
				<option value="">All changes</option>
				{named.map(({ id, name }) => (
					<option key={id} value={id}>
						{name}
					</option>
				))}
			</select>
		) : null;
	const gone = turn !== '' && isMissing(diff.error);
	const trouble = diff.error && !gone && <Failure error={diff.error} again={() => diff.refetch()} className="m-4" />;
	if (trouble && !data) return trouble;
	if (!data && !gone) return <Waiting>Reading the changes</Waiting>;
	if (read.files.length === 0 || gone)
		return (
			<div className="flex min-h-0 flex-1 flex-col">
				{choice && <div className="border-b border-line px-4 py-2">{choice}</div>}
				{trouble}
				<Strays store={store} files={read.files} turn={turn} send />
				<Empty title={turn ? 'This turn changed nothing' : 'Nothing changed yet'}>
					What the agent changes is shown here, against the commit it began from.
				</Empty>
			</div>
		);
	return (
		<>
			{trouble}
			<Review store={store} diff={data} files={read.files} cut={read.cut} turn={turn} choice={choice} />
		</>
	);
}

/** A turn among the others: which one it is, what was asked, by whom and when. Several may have been asked the same. */
function nameOf(turns: Turn[], turn: Turn, prompt: string): string {
	const at = turns.indexOf(turn);
	const words = visible(prompt.split('\n', 1)[0]?.slice(0, 60) ?? '');
	const who = [turn.author, time(turn.startedAt)].filter(Boolean).join(', ');
	return `${at + 1}: ${words} (${who})${changedNothing(turn, turns[at - 1]) ? ', changed nothing' : ''}`;
}

/** Whether it is known of a turn: receipts count what differs from the base, also what turns before it changed. */
function changedNothing({ receipt }: Turn, before: Turn | undefined): boolean {
	if (!receipt || receipt.tools_completed > 0) return false;
	const counts = ['files_changed', 'insertions', 'deletions'] as const;
	return counts.every((name) => (receipt[name] ?? 0) === (before?.receipt?.[name] ?? 0));
}

/** Comments on files that are not among the changes any more: they can be read, removed and sent all the same. */
function Strays({
	store,
	files,
	turn,
	send = false,
}: {
	store: SessionStore;
	files: FilePatch[];
	turn: string;
	send?: boolean;
}) {
	const { comments } = useMarks(store.id);
	const strays = useMemo(() => {
		const names = new Set(files.map((file) => file.path));
		return comments.filter((one) => !names.has(one.path));
	}, [comments, files]);
	// One turn has some of the files only.
	if (turn || strays.length === 0) return null;
	return (
		<section aria-label="Comments on what changed no more" className="max-h-48 shrink-0 overflow-y-auto">
			{strays.map((comment) => (
				<CommentRow key={comment.id} session={store.id} comment={comment} lost="file" />
			))}
			{send && (
				<div className="flex justify-end px-4 py-2">
					<SendComments store={store} files={files} />
				</div>
			)}
		</section>
	);
}

/** The width of what is measured, as it changes. */
function useWidth(): [React.RefObject<HTMLDivElement | null>, number] {
	const box = useRef<HTMLDivElement>(null);
	const [width, setWidth] = useState(0);
	useEffect(() => {
		const element = box.current;
		if (!element) return;
		const observer = new ResizeObserver(() => setWidth(element.clientWidth));
		observer.observe(element);
		return () => observer.disconnect();
	}, []);
	return [box, width];
}

function Review({
	store,
	diff,
	files,
	cut,
	turn,
	choice,
}: {
	store: SessionStore;
	diff: Diff | undefined;
	files: FilePatch[];
	cut: string | null;
	turn: string;
	choice: React.ReactNode;
}) {
	const phone = usePhone();
	const [search] = useSearch();
	const wanted = search.get('file');
	const line = Number(search.get('line') ?? 0);
	const marks = useMarks(store.id);
	const [box, width] = useWidth();
	const [look, setLook] = useState(() => localStorage.getItem(LOOK) ?? '');
	const split = !phone && (look ? look === 'split' : width >= WIDE);
	const [folds, setFolds] = useState<Record<string, boolean>>({});
	const [current, setCurrent] = useState<string | null>(null);
	const [sheet, setSheet] = useState(false);
	const list = useRef<FileListHandle>(null);
	const said = useMemo(() => {
		const byPath = new Map<string, Comment[]>();
		for (const one of marks.comments) byPath.set(one.path, [...(byPath.get(one.path) ?? []), one]);
		return byPath;
	}, [marks.comments]);

	// What is shown at once is bounded; a file that was viewed is folded.
	const open = useMemo(() => {
		let lines = 0;
		return new Map(
			files.map((file) => {
				// Of a large one nothing is shown before somebody wants it.
				const own = linesOf(file) > LARGE ? 0 : linesOf(file);
				lines += own;
				return [file.path, lines <= SHOWN || lines === own] as const;
			}),
		);
	}, [files]);
	const isOpen = (file: FilePatch) => folds[file.path] ?? (!isViewed(marks, file) && open.get(file.path) === true);
	const setOpen = useCallback((path: string, on: boolean) => setFolds((known) => ({ ...known, [path]: on })), []);

	const show = useCallback((path: string, at = 0) => {
		setFolds((known) => ({ ...known, [path]: true }));
		setSheet(false);
		list.current?.show(path, at);
	}, []);
	const found = wanted ? files.find((one) => one.path === wanted || wanted.endsWith(`/${one.path}`)) : undefined;
	const goal = found?.path ?? null;
	useEffect(() => {
		if (goal) show(goal, line);
	}, [goal, line, show]);

	useKeys({
		']': () => list.current?.nextFile(1),
		'[': () => list.current?.nextFile(-1),
		n: () => list.current?.nextHunk(1),
		p: () => list.current?.nextHunk(-1),
		v: () => {
			const file = list.current?.file();
			if (!file) return;
			const on = !isViewed(marks, file);
			setViewed(store.id, file, on);
			setOpen(file.path, !on);
			// What has the focus in it goes with its lines.
			const header = document.querySelector<HTMLElement>(`[data-file=${CSS.escape(file.path)}]`);
			if (!header?.parentElement?.contains(document.activeElement)) return;
			header.focus({ preventScroll: true });
			requestAnimationFrame(() => header.scrollIntoView({ block: 'nearest' }));
		},
		m: () => {
			// On the line that one is at; of two beside each other, the one as it is now.
			const row = document.activeElement?.closest('[data-row]');
			const line = [...(row?.querySelectorAll<HTMLElement>('[data-comment-line]') ?? [])].at(-1);
			if (line) return line.click();
			const file = list.current?.file();
			if (file) document.querySelector<HTMLElement>(`[data-comment=${CSS.escape(file.path)}]`)?.click();
		},
	});

	const tree = (
		<Tree
			files={files}
			current={current}
			viewed={(file) => isViewed(marks, file)}
			comments={(path) => said.get(path)?.length ?? 0}
			open={(file) => show(file.path)}
		/>
	);
	return (
		<div className="flex min-h-0 flex-1 flex-col">
			<div className="flex flex-wrap items-center gap-x-3 gap-y-2 border-b border-line px-4 py-2 text-sm">
				<span className="tabular">
					{plural(files.length, 'file')} <span className="text-good">+{diff?.insertions ?? 0}</span>{' '}
					<span className="text-bad">−{diff?.deletions ?? 0}</span>
				</span>
				{choice}
				<span className="code text-muted max-lg:hidden">since {diff?.base.slice(0, 10)}</span>
				{phone ? (
					<Button kind="quiet" icon="list" onClick={() => setSheet(true)}>
						Files
					</Button>
				) : (
					<Segments
						label="How changes are shown"
						value={split ? 'split' : 'unified'}
						options={[
							{ value: 'unified', label: 'Unified' },
							{ value: 'split', label: 'Split' },
						]}
						onChange={(value) => {
							// What the width says anyway needs not be kept.
							const own = width >= WIDE ? 'split' : 'unified';
							const next = value === own ? '' : value;
							if (next) localStorage.setItem(LOOK, next);
							else localStorage.removeItem(LOOK);
							setLook(next);
						}}
					/>
				)}
				<span className="ml-auto flex flex-wrap items-center gap-2">
					<SendComments store={store} files={turn ? null : files} />
					<Deliver store={store} />
				</span>
			</div>
			<div className="flex min-h-0 flex-1">
				{!phone && files.length > 1 && <div className="w-60 shrink-0 border-r border-line max-lg:w-48">{tree}</div>}
				<div ref={box} className="flex min-h-0 min-w-0 flex-1 flex-col">
					{wanted && !found && (
						<p className="bg-needs-soft px-4 py-1.5 text-sm text-needs">
							{visibleName(wanted)} is none of the files that changed.{' '}
							<Link to={paths.file(store.id, wanted, line)} className="underline">
								See the file
							</Link>
						</p>
					)}
					{cut !== null && (
						<p className="bg-needs-soft px-4 py-1.5 text-sm text-needs">
							Not all changes are here: {cut}. The branch itself has all of them, and so does the terminal.
						</p>
					)}
					<Strays store={store} files={files} turn={turn} />
					<FileList
						ref={list}
						session={store.id}
						files={files}
						split={split}
						isViewed={(file) => isViewed(marks, file)}
						isOpen={isOpen}
						setOpen={setOpen}
						comments={said}
						wanted={goal}
						line={line}
						whole={!turn}
						onCurrent={setCurrent}
					/>
				</div>
			</div>
			{phone && sheet && (
				<Dialog open onClose={() => setSheet(false)} label="Changed files" className="h-[70vh] w-[calc(100vw-24px)]">
					{tree}
				</Dialog>
			)}
		</div>
	);
}
