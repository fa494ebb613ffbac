// What a reviewer keeps while reading: files that were viewed, comments that are not sent yet, and those that are being
// written. They stay in this browser until the server has them, whatever happens to the page.
import { useSyncExternalStore } from 'react';
import { newKey } from '../../../api/client';
import type { FilePatch } from '../../../diff/parse';
import { outbox } from '../../../live/outbox';

export interface Comment {
	id: string;
	path: string;
	/** Line of the file; null for the file as a whole. */
	line: number | null;
	/** Whether the line is one of the file as it was. */
	old: boolean;
	/** The line's text, so that the agent finds it when numbers have moved. */
	quote: string;
	text: string;
	/** The key of the prompt that it is on the way with. */
	sent?: string;
	/** Whether its line was not among the changes any more when it was sent. */
	gone?: true;
}

/** A comment that is being written. */
export type Unfinished = Omit<Comment, 'id' | 'sent' | 'gone'>;

interface Marks {
	/** By path: a sum of the patch that was viewed. One that changed since is not viewed. */
	viewed: Record<string, string>;
	comments: Comment[];
	/** The one that was begun last is the last one. */
	writing: Unfinished[];
}

const none: Marks = { viewed: {}, comments: [], writing: [] };
/** What was read last, with the text that it was read from. */
const known = new Map<string, { text: string | null; marks: Marks }>();
/** Sessions whose marks the store of the browser did not take. They are kept on the page, at least. */
const onPage = new Set<string>();
const listeners = new Set<() => void>();
const PREFIX = 'slipway.review.';
const keyOf = (session: string) => PREFIX + session;

/** What is kept just now: another tab may have added to it, and what it wrote is not written over. */
function read(session: string): Marks {
	const here = known.get(session);
	if (here && onPage.has(session)) return here.marks;
	let text: string | null = null;
	let marks = none;
	try {
		text = localStorage.getItem(keyOf(session));
		if (here && here.text === text) return here.marks;
		marks = { ...none, ...(JSON.parse(text ?? '{}') as Partial<Marks>) };
	} catch {
		// What cannot be read is as good as nothing.
	}
	marks = withoutSent(session, marks);
	known.set(session, { text, marks });
	return marks;
}

if (typeof window !== 'undefined') {
	window.addEventListener('storage', ({ key }) => {
		if (key?.startsWith(PREFIX) || key === null) for (const listener of listeners) listener();
	});
}

/** Comments whose prompt is not on the way any more have arrived. */
function withoutSent(session: string, marks: Marks): Marks {
	const comments = marks.comments.filter((one) => !one.sent || outbox.onTheWay(session, one.sent));
	return comments.length === marks.comments.length ? marks : { ...marks, comments };
}

outbox.watch((session) => {
	const marks = read(session);
	const rest = withoutSent(session, marks);
	if (rest !== marks) write(session, rest);
});

function write(session: string, marks: Marks) {
	const empty = marks.comments.length + marks.writing.length + Object.keys(marks.viewed).length === 0;
	const text = empty ? null : JSON.stringify(marks);
	known.set(session, { text, marks });
	try {
		if (text === null) localStorage.removeItem(keyOf(session));
		else localStorage.setItem(keyOf(session), text);
		onPage.delete(session);
	} catch {
		onPage.add(session);
	}
	for (const listener of listeners) listener();
}

export function useMarks(session: string): Marks {
	return useSyncExternalStore(
		(listener) => {
			listeners.add(listener);
			return () => {
				listeners.delete(listener);
			};
		},
		() => read(session),
	);
}

const sums = new WeakMap<FilePatch, string>();

/** A short sum of what a file's patch says. */
export function sumOf(file: FilePatch): string {
	const known = sums.get(file);
	if (known !== undefined) return known;
	let sum = 0x811c9dc5;
	const add = (text: string) => {
		for (let at = 0; at < text.length; at += 1) sum = Math.imul(sum ^ text.charCodeAt(at), 0x01000193);
	};
	add(`${file.status}${file.mode ?? ''}`);
	// What has no lines, as an image, is told apart by what git calls its content.
	if (file.hunks.length === 0) add(file.content ?? '');
	for (const hunk of file.hunks) for (const line of hunk.lines) if (line.kind !== 'same') add(line.kind + line.text);
	const text = (sum >>> 0).toString(36);
	sums.set(file, text);
	return text;
}

export function setViewed(session: string, file: FilePatch, on: boolean) {
	const marks = read(session);
	const { [file.path]: _, ...rest } = marks.viewed;
	write(session, { ...marks, viewed: on ? { ...rest, [file.path]: sumOf(file) } : rest });
}

export function isViewed(marks: Marks, file: FilePatch): boolean {
	const mark = marks.viewed[file.path];
	return mark !== undefined && mark === sumOf(file);
}

export function addComment(session: string, comment: Omit<Comment, 'id'>) {
	const marks = read(session);
	write(session, { ...marks, comments: [...marks.comments, { ...comment, id: newKey() }] });
}

export function removeComment(session: string, id: string) {
	const marks = read(session);
	write(session, { ...marks, comments: marks.comments.filter((one) => one.id !== id) });
}

/** Sends them as one prompt. They are gone from here when the server has them; whether it has them at once. */
export function sendComments(session: string, comments: Comment[]): Promise<boolean> {
	const key = newKey();
	const ids = new Set(comments.map((one) => one.id));
	// First on the way and then marked: one that is marked and not on the way has arrived.
	const taken = outbox.add(session, promptOf(comments), false, key);
	const marks = read(session);
	write(session, { ...marks, comments: marks.comments.map((one) => (ids.has(one.id) ? { ...one, sent: key } : one)) });
	return taken;
}

/** The prompt that they were on the way with is not to be sent: they are comments again. Whether there were any. */
export function giveBack(session: string, key: string): boolean {
	const marks = read(session);
	if (!marks.comments.some((one) => one.sent === key)) return false;
	const comments = marks.comments.map(({ sent, ...one }) =>
		sent === undefined || sent === key ? one : { ...one, sent },
	);
	write(session, { ...marks, comments });
	return true;
}

type Where = Pick<Comment, 'path' | 'line' | 'old'>;
const same = (one: Where, other: Where) => one.path === other.path && one.line === other.line && one.old === other.old;

/** What was written so far into a comment at a place. */
export function writtenAt(session: string, place: Where): string {
	return read(session).writing.find((one) => same(one, place))?.text ?? '';
}

/** Keeps what is being written; an empty text is nothing. */
export function keepWriting(session: string, comment: Unfinished) {
	const marks = read(session);
	const rest = marks.writing.filter((one) => !same(one, comment));
	if (rest.length === marks.writing.length && !comment.text) return;
	write(session, { ...marks, writing: comment.text ? [...rest, comment] : rest });
}

/** The comment of a file that was begun last and is not finished. */
export function unfinished(session: string): Map<string, Unfinished> {
	return new Map(read(session).writing.map((one) => [one.path, one]));
}

/** All comments as one prompt. */
export function promptOf(comments: Comment[]): string {
	const parts = comments.map((comment, at) => {
		const place =
			comment.line === null
				? comment.path
				: `${comment.path}:${comment.line}${comment.old ? ' (before the change)' : ''}${comment.gone ? ' (a line that is not among the changes any more)' : ''}`;
		const quote = comment.quote.trim() ? `\n   > ${comment.quote.trim().slice(0, 200)}` : '';
		return `${at + 1}. ${place}${quote}\n   ${comment.text.trim().replaceAll('\n', '\n   ')}`;
	});
	return `Please take up these comments on your changes:\n\n${parts.join('\n\n')}`;
}
