// What a reviewer keeps while reading: files that were viewed, and comments that are not sent yet. They stay in this
// browser until they are sent, whatever happens to the page.
import { useSyncExternalStore } from 'react';
import type { FilePatch } from '../../../diff/parse';

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
}

interface Marks {
	/** By path: a sum of the patch that was viewed. One that changed since is not viewed. */
	viewed: Record<string, string>;
	comments: Comment[];
}

const none: Marks = { viewed: {}, comments: [] };
const known = new Map<string, Marks>();
const listeners = new Set<() => void>();
const keyOf = (session: string) => `slipway.review.${session}`;

function read(session: string): Marks {
	const here = known.get(session);
	if (here) return here;
	let marks = none;
	try {
		marks = { ...none, ...(JSON.parse(localStorage.getItem(keyOf(session)) ?? '{}') as Partial<Marks>) };
	} catch {
		// What cannot be read is as good as nothing.
	}
	known.set(session, marks);
	return marks;
}

function write(session: string, marks: Marks) {
	known.set(session, marks);
	try {
		if (marks.comments.length === 0 && Object.keys(marks.viewed).length === 0) localStorage.removeItem(keyOf(session));
		else localStorage.setItem(keyOf(session), JSON.stringify(marks));
	} catch {
		// They are kept on the page, at least.
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

let next = Date.now();
export function addComment(session: string, comment: Omit<Comment, 'id'>) {
	const marks = read(session);
	next += 1;
	write(session, { ...marks, comments: [...marks.comments, { ...comment, id: next.toString(36) }] });
}

export function removeComment(session: string, id: string) {
	const marks = read(session);
	write(session, { ...marks, comments: marks.comments.filter((one) => one.id !== id) });
}

export function clearComments(session: string) {
	write(session, { ...read(session), comments: [] });
}

/** All comments as one prompt. */
export function promptOf(comments: Comment[]): string {
	const parts = comments.map((comment, at) => {
		const place =
			comment.line === null
				? comment.path
				: `${comment.path}:${comment.line}${comment.old ? ' (before the change)' : ''}`;
		const quote = comment.quote.trim() ? `\n   > ${comment.quote.trim().slice(0, 200)}` : '';
		return `${at + 1}. ${place}${quote}\n   ${comment.text.trim().replaceAll('\n', '\n   ')}`;
	});
	return `Please take up these comments on your changes:\n\n${parts.join('\n\n')}`;
}
