// One changed file: its header, which stays in view, and its lines, old above new or beside it.
import { type KeyboardEvent, memo, useMemo, useState } from 'react';
import type { Line, Piece } from '../../../diff/compare';
import { endsOf, isCrlf } from '../../../diff/ends';
import { LineText, looks, signs, wordsOf } from '../../../diff/lines';
import type { FilePatch, Hunk } from '../../../diff/parse';
import { CrLf, NoEnd } from '../../../diff/patch';
import { pairs } from '../../../diff/split';
import { hides, visible, visibleName } from '../../../text/hidden';
import { plural } from '../../../ui/format';
import { Icon } from '../../../ui/icons';
import { useTouch } from '../../../ui/media';
import { Button, IconButton } from '../../../ui/parts';
import { Link, paths } from '../../../ui/router';
import { CommentForm, CommentRow } from './comments';
import { ImageChange, imageKind } from './images';
import { firstLines, linesOf, mostOf, STEP } from './large';
import { type Comment, setViewed, sumOf } from './marks';
import { lineOf, type Place, type Placed, placed } from './places';

/** What a reviewer has open in a file. It is kept outside of it, since only files in view exist. */
export interface Held {
	place: Place | null;
	/** Lines that were asked for, where it is large. */
	lines: number;
}

interface FileProps {
	session: string;
	file: FilePatch;
	split: boolean;
	viewed: boolean;
	open: boolean;
	setOpen: (path: string, open: boolean) => void;
	comments: Comment[];
	/** The line that an address points at. */
	wanted: number;
	/** Whether the files are those of now, which can be fetched. */
	whole: boolean;
	held: Held;
	hold: (path: string, change: Partial<Held>) => void;
}

export const File = memo(function File(props: FileProps) {
	const { session, file, viewed, open, setOpen, comments, wanted, whole, held, hold } = props;
	const { place } = held;
	const setPlace = (next: Place | null) => hold(file.path, { place: next });
	const lines = linesOf(file);
	// The line that a comment was begun on may be elsewhere meanwhile, or gone.
	const writesAt = useMemo(() => (place && place.line !== null ? lineOf(file, place) : null), [file, place]);
	const homeless = place !== null && place.line !== null && writesAt === null;
	const said = useMemo(() => placed(file, comments), [file, comments]);
	const most = mostOf(file, held.lines, wanted);
	const hunks = useMemo(() => firstLines(file.hunks, most), [file, most]);
	const picture = imageKind(file.path) !== null && whole;
	const missing = wanted > 0 && !file.hunks.some((hunk) => hunk.lines.some((one) => one.new === wanted));
	const name = visibleName(file.path);
	const called = file.oldPath && file.oldPath !== file.path ? `${visibleName(file.oldPath)} → ${name}` : name;
	const ends = useMemo(() => endsOf(file), [file]);
	const secret = useMemo(() => hidesIn(file), [file]);
	return (
		<section aria-label={name} className="border-b border-line">
			<h2
				id={`file-${file.path}`}
				data-file={file.path}
				tabIndex={-1}
				className={`sticky top-0 z-10 flex min-h-9 items-center gap-2 border-line bg-background px-2 text-sm ${open ? 'border-b' : ''}`}
			>
				<IconButton
					icon={open ? 'down' : 'right'}
					size={12}
					label={open ? `Fold ${name}` : `Unfold ${name}`}
					aria-expanded={open}
					onClick={() => setOpen(file.path, !open)}
				/>
				{/* Where there is no room for all of it, its own name stays rather than the folders that it is in. */}
				<span className="code flex min-w-0 flex-1 font-semibold" title={called}>
					<span className="sr-only">{called}</span>
					<span aria-hidden="true" className="truncate">
						{called.slice(0, called.lastIndexOf('/') + 1)}
					</span>
					<span aria-hidden="true" className="max-w-full shrink-0 truncate">
						{called.slice(called.lastIndexOf('/') + 1)}
					</span>
				</span>
				{secret && (
					<span
						className="inline-flex items-center gap-1 text-xs font-normal whitespace-nowrap text-needs"
						title="Its name or what was added has characters that nobody sees, such as those that turn the order of a line. They are shown by their numbers."
					>
						<Icon name="warning" size={12} /> hidden characters
					</span>
				)}
				{ends && <span className="text-xs font-normal whitespace-nowrap text-needs max-md:hidden">{ends.words}</span>}
				{file.status !== 'modified' && <span className="text-xs text-muted max-md:sr-only">{file.status}</span>}
				{file.mode && <span className="text-xs text-muted max-md:hidden">mode {file.mode}</span>}
				<span className="tabular text-xs whitespace-nowrap">
					<span className="text-good">+{file.insertions}</span> <span className="text-bad">−{file.deletions}</span>
				</span>
				<IconButton
					icon="edit"
					size={14}
					label={`Comment on ${name}`}
					data-comment={file.path}
					onClick={() => {
						setOpen(file.path, true);
						setPlace({ path: file.path, line: null, old: false, quote: '' });
					}}
				/>
				<label className="target flex items-center gap-1.5 pr-2 text-xs font-normal whitespace-nowrap">
					<input
						type="checkbox"
						className="size-4 accent-(--accent)"
						checked={viewed}
						onChange={(event) => {
							setViewed(session, file, event.target.checked);
							setOpen(file.path, !event.target.checked);
						}}
					/>
					<span className="max-md:sr-only">Viewed</span>
					<span className="sr-only"> {name}</span>
				</label>
			</h2>
			{open && (
				<>
					{ends && <p className="px-4 py-1 text-xs text-needs md:hidden">{ends.words}</p>}
					{comments
						.filter((comment) => comment.line === null)
						.map((comment) => (
							<CommentRow key={comment.id} session={session} comment={comment} />
						))}
					{said.lost.map((comment) => (
						<CommentRow key={comment.id} session={session} comment={comment} lost="line" />
					))}
					{place && (place.line === null || homeless) && (
						<CommentForm
							key={`${place.line} ${place.old}`}
							session={session}
							place={place}
							close={() => setPlace(null)}
						/>
					)}
					{missing && (
						<p className="flex items-center gap-2 bg-needs-soft px-4 py-1.5 text-sm text-needs">
							Line {wanted} is none of those that changed.
							<Link to={paths.file(session, file.path, wanted)} className="underline">
								See it in the whole file
							</Link>
						</p>
					)}
					{picture && <ImageChange session={session} file={file} version={sumOf(file)} />}
					{file.binary && !picture && (
						<p className="px-4 py-3 text-sm text-muted">
							{imageKind(file.path) === null ? (
								'A binary file: its content is not shown.'
							) : (
								<>
									An image. What it was and what it is now is{' '}
									<Link to={paths.line(session, file.path)} className="underline">
										among all changes
									</Link>
									.
								</>
							)}
						</p>
					)}
					{!file.binary && lines === 0 && !picture && (
						<p className="px-4 py-3 text-sm text-muted">
							{file.submodule
								? 'Another repository, at another commit.'
								: file.status === 'renamed'
									? 'Moved, with the same content.'
									: file.mode
										? 'Only its mode changed.'
										: 'An empty file.'}
						</p>
					)}
					{hunks.map((hunk, at) => (
						<HunkView
							key={at}
							{...props}
							hunk={hunk}
							at={at}
							ends={ends !== null}
							place={place}
							writesAt={writesAt}
							said={said}
							setPlace={setPlace}
						/>
					))}
					{most < lines && (
						<p className="flex flex-wrap items-center gap-3 px-4 py-3 text-sm text-muted">
							{most === 0
								? `A large change of ${plural(lines, 'line')}.`
								: `${most.toLocaleString('en-GB')} of ${plural(lines, 'line')} are shown.`}
							<Button onClick={() => hold(file.path, { lines: most + STEP })}>
								{most === 0 ? 'Show it' : `Show ${Math.min(STEP, lines - most).toLocaleString('en-GB')} more`}
							</Button>
						</p>
					)}
				</>
			)}
		</section>
	);
});

/** Whether its name or what was added to it has characters that nobody sees. */
const hidesIn = (file: FilePatch) =>
	hides(file.path) ||
	(file.oldPath !== null && hides(file.oldPath)) ||
	file.hunks.some((hunk) => hunk.lines.some((line) => line.kind === 'add' && hides(line.text)));

interface HunkProps extends FileProps {
	hunk: Hunk;
	/** Which one of its file it is. */
	at: number;
	/** Whether lines have other ends than before. */
	ends: boolean;
	place: Place | null;
	/** The line that the comment which is being written belongs to. */
	writesAt: Line | null;
	said: Placed;
	setPlace: (place: Place | null) => void;
}

function HunkView(props: HunkProps) {
	const { hunk, at: number, file, split, wanted, setPlace, session, place, writesAt } = props;
	const words = useMemo(() => (hunk.lines.length > 3000 ? new Map<Line, Piece[]>() : wordsOf(hunk.lines)), [hunk]);
	const rows = useMemo(() => (split ? pairs(hunk.lines) : null), [hunk, split]);
	const said = (line: Line) => (
		<>
			{props.said.at.get(line)?.map((comment) => (
				<CommentRow key={comment.id} session={session} comment={comment} />
			))}
			{place && writesAt === line && <CommentForm session={session} place={place} close={() => setPlace(null)} />}
		</>
	);
	const lineNumber = (line: Line, side: 'old' | 'new') => (
		<LineNumber path={file.path} line={line} side={side} start={setPlace} />
	);
	const text = (line: Line) => (
		<>
			<span className="w-4 shrink-0 text-muted select-none">{signs[line.kind]}</span>
			<span className="min-w-0 flex-1 pr-4 break-words whitespace-pre-wrap">
				<LineText line={line} words={words.get(line)} />
				{props.ends && line.kind !== 'same' && isCrlf(line) && <CrLf />}
				{line.open && <NoEnd />}
			</span>
		</>
	);
	const half = (line: Line | null, side: 'old' | 'new') => (
		<div
			data-line={line?.new && side === 'new' ? `${file.path}:${line.new}` : undefined}
			className={`flex w-1/2 min-w-0 ${side === 'old' ? 'border-r border-line' : ''} ${line ? looks[line.kind] : 'bg-sunken'} ${line && side === 'new' ? marked(wanted, line) : ''}`}
		>
			{line && lineNumber(line, side)}
			{line && text(line)}
		</div>
	);
	// A finger picks a line anywhere in the change, and says with a button of its size what to do with it.
	const touch = useTouch();
	const [picked, setPicked] = useState<number | null>(null);
	const pick = (at: number) => (touch ? { onClick: () => setPicked(at) } : {});
	const bar = (at: number) =>
		touch && picked === at ? (
			<PickedLine
				line={hunk.lines[at]}
				move={(by) => setPicked(Math.max(0, Math.min(hunk.lines.length - 1, at + by)))}
				comment={(line) => {
					setPlace(placeOf(file.path, line));
					setPicked(null);
				}}
				close={() => setPicked(null)}
			/>
		) : null;
	return (
		<div
			role="group"
			aria-label={`Change at line ${hunk.newStart || hunk.oldStart}`}
			data-hunk={file.path}
			data-at={number}
			tabIndex={-1}
			onKeyDown={moveLine}
			className="code scroll-mt-9"
		>
			<div className="flex items-center bg-sunken px-4 text-muted">
				<p className="min-w-0 flex-1 truncate py-1">
					line {hunk.newStart || hunk.oldStart} {visible(hunk.context)}
				</p>
				{touch && (
					<button type="button" className="target px-2 font-sans text-xs underline" onClick={() => setPicked(0)}>
						Comment on a line
					</button>
				)}
			</div>
			{rows
				? rows.map((row, at) => (
						<div key={at}>
							<div className="flex" data-row tabIndex={-1}>
								{half(row.left, 'old')}
								{half(row.right, 'new')}
							</div>
							{row.left && row.left !== row.right && said(row.left)}
							{row.right && said(row.right)}
						</div>
					))
				: hunk.lines.map((line, at) => (
						<div key={at}>
							<div
								data-row
								data-line={line.new ? `${file.path}:${line.new}` : undefined}
								tabIndex={-1}
								className={`flex ${looks[line.kind]} ${marked(wanted, line)} ${touch && picked === at ? 'outline-2 -outline-offset-2 outline-accent' : ''}`}
								{...pick(at)}
							>
								<span className="contents max-md:hidden">{lineNumber(line, 'old')}</span>
								{lineNumber(line, 'new')}
								{text(line)}
							</div>
							{bar(at)}
							{said(line)}
						</div>
					))}
		</div>
	);
}

/** The arrows go from line to line, also into the next change of the file. */
function moveLine(event: KeyboardEvent<HTMLElement>) {
	const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
	const target = event.target as HTMLElement;
	if (!by || event.altKey || event.ctrlKey || event.metaKey || !target.matches('[data-row], [data-hunk]')) return;
	const file = event.currentTarget.parentElement;
	const rows = [...(file?.querySelectorAll<HTMLElement>('[data-row]') ?? [])];
	const at = rows.indexOf(target);
	// From the change itself one comes to its first line.
	const first = rows.findIndex((row) => target.contains(row));
	const next = rows[at >= 0 ? at + by : by > 0 ? first : first - 1];
	if (!next) return;
	event.preventDefault();
	next.focus();
	next.scrollIntoView({ block: 'nearest' });
}

/** What can be done with the line that was picked with a finger. */
function PickedLine({
	line,
	move,
	comment,
	close,
}: {
	line: Line | undefined;
	move: (by: number) => void;
	comment: (line: Line) => void;
	close: () => void;
}) {
	if (!line) return null;
	return (
		<div className="flex items-center gap-1 border-y border-line bg-surface px-2 font-sans">
			<IconButton icon="up" label="The line before" onClick={() => move(-1)} />
			<IconButton icon="down" label="The line after" onClick={() => move(1)} />
			<Button icon="edit" className="flex-1" onClick={() => comment(line)}>
				Comment on line {line.new ?? line.old}
			</Button>
			<IconButton icon="cross" label="No comment" onClick={close} />
		</div>
	);
}

const marked = (wanted: number, line: Line) =>
	wanted > 0 && line.new === wanted ? 'outline-2 -outline-offset-2 outline-needs' : '';

const placeOf = (path: string, line: Line): Place => ({
	path,
	line: line.new ?? line.old,
	old: line.new === null,
	quote: line.text,
});

/** A comment goes to the line as it is now, and where it was removed, to the line as it was. */
function LineNumber({
	path,
	line,
	side,
	start,
}: {
	path: string;
	line: Line;
	side: 'old' | 'new';
	start: (place: Place) => void;
}) {
	const touch = useTouch();
	const number = line[side];
	const look = 'tabular flex w-11 shrink-0 items-start justify-end pr-2 text-muted select-none max-md:w-10';
	const takes = side === 'new' ? line.new !== null : line.new === null;
	if (number === null || !takes || touch) return <span className={look}>{number}</span>;
	return (
		<button
			type="button"
			// With the keyboard one comes to a line with the arrows; thousands of stops would help nobody.
			tabIndex={-1}
			data-comment-line
			aria-label={`Comment on line ${number}`}
			title="Comment on this line"
			onClick={() => start(placeOf(path, line))}
			className={`${look} hover:bg-accent hover:text-accent-text`}
		>
			{number}
		</button>
	);
}
