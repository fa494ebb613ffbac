// Comments on lines: written one by one, sent together as one prompt.
import { useState } from 'react';
import type { FilePatch } from '../../../diff/parse';
import type { SessionStore } from '../../../live/store';
import { visible } from '../../../text/hidden';
import { mod } from '../../../ui/keys';
import { Button, IconButton, Kbd } from '../../../ui/parts';
import { go, paths } from '../../../ui/router';
import { say } from '../../../ui/toast';
import { addComment, type Comment, keepWriting, removeComment, sendComments, useMarks, writtenAt } from './marks';
import { asOfNow, type Place } from './places';

export function CommentForm({ session, place, close }: { session: string; place: Place; close: () => void }) {
	const [text, setText] = useState(() => writtenAt(session, place));
	// What is kept from before does not pull the one who reads to itself.
	const [began] = useState(text === '');
	const write = (next: string) => {
		setText(next);
		keepWriting(session, { ...place, text: next });
	};
	const drop = () => {
		keepWriting(session, { ...place, text: '' });
		close();
	};
	const save = () => {
		if (!text.trim()) return;
		addComment(session, { ...place, text: text.trim() });
		drop();
	};
	const where = place.line === null ? visible(place.path) : `line ${place.line}`;
	return (
		<form
			className="flex flex-col gap-2 border-y border-line bg-surface p-3 font-sans text-sm"
			onSubmit={(event) => {
				event.preventDefault();
				save();
			}}
		>
			<textarea
				// Not under the header of the file, which stays in view.
				className="field min-h-16 scroll-mt-12 resize-y"
				aria-label={`Comment on ${where}`}
				placeholder="What should be different here?"
				autoFocus={began}
				value={text}
				onChange={(event) => write(event.target.value)}
				onKeyDown={(event) => {
					// What was written goes with Cancel only.
					if (event.key === 'Escape') {
						if (text.trim()) event.currentTarget.blur();
						else drop();
					}
					if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) {
						event.preventDefault();
						save();
					}
				}}
			/>
			<div className="flex items-center justify-end gap-2">
				<span className="mr-auto text-xs text-muted">On {where}. Kept here until all comments are sent.</span>
				<span className="max-md:hidden">
					<Kbd>{mod}Enter</Kbd>
				</span>
				<Button kind="quiet" onClick={drop}>
					Cancel
				</Button>
				<Button kind="primary" type="submit" disabled={!text.trim()}>
					Comment
				</Button>
			</div>
		</form>
	);
}

/** `lost`: its line, or its file, is not among the changes any more. */
export function CommentRow({ session, comment, lost }: { session: string; comment: Comment; lost?: 'line' | 'file' }) {
	return (
		<div className="flex items-start gap-2 border-y border-line bg-accent-soft px-3 py-2 font-sans text-sm">
			<div className="min-w-0 flex-1">
				{lost && (
					<p className="text-xs break-words text-muted">
						On{' '}
						{lost === 'file'
							? `${visible(comment.path)}${comment.line === null ? '' : `, line ${comment.line}`}`
							: `line ${comment.line}${comment.old ? ' of before' : ''}`}
						, which is not among the changes any more
						{comment.quote.trim() && (
							<>
								: <span className="code">{visible(comment.quote.trim().slice(0, 200))}</span>
							</>
						)}
					</p>
				)}
				<p className="break-words whitespace-pre-wrap">{visible(comment.text)}</p>
			</div>
			<span className="text-xs text-muted">{comment.sent ? 'on the way' : 'not sent yet'}</span>
			{!comment.sent && (
				<IconButton
					icon="cross"
					size={12}
					label="Remove the comment"
					className="size-6"
					onClick={() => removeComment(session, comment.id)}
				/>
			)}
		</div>
	);
}

/** `files`: the changes as they are now, where they are known; lines that moved are sent with their numbers of now. */
export function SendComments({ store, files }: { store: SessionStore; files: FilePatch[] | null }) {
	const comments = useMarks(store.id).comments.filter((one) => !one.sent);
	if (comments.length === 0) return null;
	const sendAll = () => {
		// What becomes of them is said where the prompt is.
		sendComments(store.id, files ? comments.map((one) => asOfNow(files, one)) : comments).then((taken) => {
			if (taken) say(comments.length === 1 ? 'The comment is sent' : `${comments.length} comments are sent`);
		});
		go(paths.session(store.id));
	};
	return (
		<Button kind="primary" icon="send" onClick={sendAll}>
			Send {comments.length === 1 ? 'the comment' : `${comments.length} comments`}
		</Button>
	);
}
