// The changed files below each other, of which only those in view exist: there may be ten thousand. What one writes into a
// file, and the way from file to file and from change to change, do not depend on what exists just now.
import { type Ref, useImperativeHandle, useMemo, useRef, useState } from 'react';
import { VList, type VListHandle } from 'virtua';
import type { FilePatch } from '../../../diff/parse';
import { File, type Held } from './file';
import { firstLines, mostOf } from './large';
import { type Comment, unfinished } from './marks';

export interface FileListHandle {
	/** Brings a file into view, or one of its lines. */
	show(path: string, line?: number): void;
	nextFile(by: number): void;
	nextHunk(by: number): void;
	/** The file that one is at. */
	file(): FilePatch | null;
}

const NONE: Comment[] = [];
const NOTHING: Held = { place: null, lines: 0 };
/** Frames of the screen until what was scrolled to is there. */
const FRAMES = 60;

interface Props {
	ref: Ref<FileListHandle>;
	session: string;
	files: FilePatch[];
	split: boolean;
	isViewed: (file: FilePatch) => boolean;
	isOpen: (file: FilePatch) => boolean;
	setOpen: (path: string, open: boolean) => void;
	comments: Map<string, Comment[]>;
	/** The file and the line that the address points at. */
	wanted: string | null;
	line: number;
	whole: boolean;
	onCurrent: (path: string) => void;
}

export function FileList(props: Props) {
	const { ref, session, files, split, isViewed, isOpen, setOpen, comments, wanted, line, whole, onCurrent } = props;
	const list = useRef<VListHandle>(null);
	const box = useRef<HTMLDivElement>(null);
	/** The file that one came to last. */
	const here = useRef<string | null>(null);
	// A comment that was begun is open again, whatever happened to the page; also after another one in the same file.
	const [held, setHeld] = useState<Record<string, Held>>(() =>
		Object.fromEntries([...unfinished(session)].map(([path, place]) => [path, { ...NOTHING, place }])),
	);
	const hold = useMemo(
		() => (path: string, change: Partial<Held>) => {
			const place = change.place === null ? (unfinished(session).get(path) ?? null) : change.place;
			const next = { ...change, ...(place === undefined ? {} : { place }) };
			setHeld((known) => ({ ...known, [path]: { ...NOTHING, ...known[path], ...next } }));
		},
		[session],
	);
	// A comment that is being written stays, wherever one scrolls to.
	const kept = useMemo(() => files.flatMap((file, at) => (held[file.path]?.place ? [at] : [])), [files, held]);

	useImperativeHandle(ref, () => {
		const focused = (selector: string) => {
			const element = document.activeElement?.closest<HTMLElement>(selector);
			return element && box.current?.contains(element) ? element : null;
		};
		const indexOf = (path: string | null | undefined) => files.findIndex((file) => file.path === path);
		const current = () => {
			const element = focused('[data-file], [data-hunk]');
			const at = indexOf(element?.dataset.file ?? element?.dataset.hunk ?? here.current);
			return at >= 0 ? at : -1;
		};
		const find = (selector: string) => {
			const there = box.current?.querySelector<HTMLElement>(selector);
			// What is not measured yet is hidden, and cannot have the focus.
			return there?.checkVisibility({ visibilityProperty: true }) ? there : null;
		};
		/** Scrolls to a file, and when it is there to what is wanted in it. */
		const goTo = (at: number, selector: string, block: ScrollLogicalPosition, focus: boolean) => {
			const file = files[at];
			if (!file) return;
			here.current = file.path;
			onCurrent(file.path);
			let frames = 0;
			const look = () => {
				const target = find(selector);
				if (!target && frames++ < FRAMES) {
					// How high files are is known when they were drawn; each time one comes nearer.
					if (frames % 3 === 1) list.current?.scrollToIndex(at, { align: 'start' });
					requestAnimationFrame(look);
					return;
				}
				target?.scrollIntoView({ block });
				if (focus) target?.focus({ preventScroll: true });
			};
			look();
		};
		const header = (path: string) => `[data-file=${CSS.escape(path)}]`;
		const clamp = (at: number) => Math.max(0, Math.min(files.length - 1, at));
		return {
			show(path, at = 0) {
				const index = indexOf(path);
				if (at) goTo(index, `[data-line=${CSS.escape(`${path}:${at}`)}]`, 'center', false);
				else goTo(index, header(path), 'start', true);
			},
			nextFile(by) {
				const from = current();
				const at = clamp(from < 0 && by < 0 ? files.length - 1 : from + by);
				const path = files[at]?.path;
				if (path !== undefined) goTo(at, header(path), 'start', true);
			},
			nextHunk(by) {
				const spots = files.flatMap((file, index) => {
					if (!isOpen(file)) return [];
					const most = mostOf(file, held[file.path]?.lines ?? 0, file.path === wanted ? line : 0);
					return firstLines(file.hunks, most).map((_, hunk) => ({ index, hunk, path: file.path }));
				});
				const element = focused('[data-hunk]');
				const on = spots.findIndex(
					(spot) => spot.path === element?.dataset.hunk && String(spot.hunk) === element?.dataset.at,
				);
				const from = current();
				const near =
					by > 0 ? spots.findIndex((spot) => spot.index >= from) : spots.findLastIndex((spot) => spot.index < from);
				const next = spots[on >= 0 ? Math.max(0, Math.min(spots.length - 1, on + by)) : near];
				if (next) goTo(next.index, `[data-hunk=${CSS.escape(next.path)}][data-at="${next.hunk}"]`, 'start', true);
			},
			file: () => files[current()] ?? null,
		};
	}, [files, held, isOpen, line, onCurrent, wanted]);

	return (
		<div ref={box} className="min-h-0 flex-1">
			<VList ref={list} data={files} bufferSize={1200} keepMounted={kept} className="h-full">
				{(file) => (
					<File
						key={file.path}
						session={session}
						file={file}
						split={split}
						viewed={isViewed(file)}
						open={isOpen(file)}
						setOpen={setOpen}
						comments={comments.get(file.path) ?? NONE}
						wanted={wanted === file.path ? line : 0}
						whole={whole}
						held={held[file.path] ?? NOTHING}
						hold={hold}
					/>
				)}
			</VList>
		</div>
	);
}
