// The prompts that wait, to be changed, moved and removed; and those that are on their way to the server.
import { useState } from 'react';
import { send } from '../../api/client';
import type { QueuedPrompt } from '../../api/types';
import { type SessionStore, useLive } from '../../live/store';
import { visible } from '../../text/hidden';
import { draftsBelow, useDraftOf } from '../../ui/draft';
import { Button, IconButton } from '../../ui/parts';
import { go, paths } from '../../ui/router';
import { complain } from '../../ui/toast';
import { giveBack } from './review/marks';

/** `takeBack` puts a text to where one writes: it was not taken as it is. */
export function QueueList({ store, takeBack }: { store: SessionStore; takeBack: (text: string) => void }) {
	const queue = useLive(store, ({ state }) => state.queue);
	const pending = useLive(store, (one) => one.pending);
	const paused = useLive(store, ({ state }) => state.paused);
	// A change that was being written when its prompt began, or was removed.
	const [, settled] = useState(0);
	const left = draftsBelow(editOf(store.id, '')).filter((id) => !queue.some((prompt) => prompt.id === id));
	if (queue.length === 0 && pending.length === 0 && left.length === 0 && !paused) return null;
	const refused = pending.filter((one) => one.state === 'failed').length;
	const onTheWay = pending.length - refused;
	const resume = () => send('PUT', `/sessions/${store.id}/queue`, { paused: false }).catch(complain);
	const pause = () => send('PUT', `/sessions/${store.id}/queue`, { paused: true }).catch(complain);
	return (
		<section aria-label="Queue" className="mb-2 rounded-md border border-line">
			<header className="flex items-center px-2 text-xs text-muted">
				<span className="flex-1 py-1">
					{[
						queue.length > 0 && `${queue.length} queued`,
						onTheWay > 0 && `${onTheWay} on the way`,
						refused > 0 && `${refused} not taken`,
						paused && `${queue.length + pending.length ? 'the' : 'The'} queue is paused: ${visible(paused)}`,
					]
						.filter(Boolean)
						.join(', ')}
				</span>
				{paused ? (
					<Button kind="quiet" icon="play" className="h-6" onClick={resume}>
						Resume
					</Button>
				) : (
					queue.length > 0 && (
						<Button kind="quiet" icon="pause" className="h-6" onClick={pause}>
							Pause
						</Button>
					)
				)}
			</header>
			<ol className="max-h-40 overflow-y-auto">
				{queue.map((prompt, at) => (
					<Queued
						key={prompt.id}
						prompt={prompt}
						before={queue[at - 1]?.id ?? null}
						last={at === queue.length - 1}
						after={queue[at + 2]?.id ?? null}
						store={store}
					/>
				))}
				{left.map((prompt) => (
					<Left key={prompt} prompt={prompt} store={store} settled={() => settled((times) => times + 1)} />
				))}
				{pending.map((one) => (
					<li key={one.key} className={narrow}>
						<span className={narrowText}>{visible(one.text)}</span>
						{one.state === 'sending' ? (
							<span className="text-xs text-muted">{one.prompt ? 'the server has it' : 'sending'}</span>
						) : (
							<>
								{one.state === 'waits' ? (
									<span className="min-w-0 text-xs text-needs">kept here, sent when the server is back</span>
								) : (
									<span className="min-w-0 text-xs break-words text-bad">
										{visible(one.error ?? 'The server did not take it')}
									</span>
								)}
								<Button kind="quiet" className="h-6" onClick={() => store.retry(one.key)}>
									Try again
								</Button>
								{one.state === 'failed' && (
									<Button
										kind="quiet"
										className="h-6"
										onClick={() => {
											// Comments are changed where they were written.
											const comments = giveBack(store.id, one.key);
											if (!comments) takeBack(one.text);
											store.discard(one.key);
											if (comments) go(paths.session(store.id, 'changes'));
										}}
									>
										Change it
									</Button>
								)}
								<IconButton
									icon="cross"
									label="Discard"
									size={12}
									onClick={() => {
										giveBack(store.id, one.key);
										store.discard(one.key);
									}}
								/>
							</>
						)}
					</li>
				))}
			</ol>
		</section>
	);
}

/** On a phone the text has lines of its own; what can be done with it stands below. */
const narrow = 'flex flex-wrap items-center gap-x-2 border-t border-line px-2 py-1 text-sm md:flex-nowrap';
const narrowText = 'min-w-0 flex-1 break-words max-md:line-clamp-2 max-md:basis-full md:truncate';

const editOf = (session: string, prompt: string) => `prompt.${session}.${prompt}`;

/** What was written into a prompt that waits no longer: it is not lost, and not sent by itself either. */
function Left({ prompt, store, settled }: { prompt: string; store: SessionStore; settled: () => void }) {
	const [text, setText] = useDraftOf<string>(editOf(store.id, prompt));
	const drop = () => {
		setText(null);
		settled();
	};
	return (
		<li className={narrow}>
			<span className={narrowText} title={visible(text ?? '')}>
				{visible(text ?? '')}
			</span>
			<span className="text-xs text-needs">not saved: the prompt waits no longer</span>
			<Button
				kind="quiet"
				className="h-6"
				onClick={() => {
					if (text?.trim()) store.prompt(text.trim());
					drop();
				}}
			>
				Send it as a new one
			</Button>
			<IconButton icon="cross" label="Discard" size={12} onClick={drop} />
		</li>
	);
}

function Queued({
	prompt,
	before,
	after,
	last,
	store,
}: {
	prompt: QueuedPrompt;
	before: string | null;
	after: string | null;
	last: boolean;
	store: SessionStore;
}) {
	const [draft, setDraft] = useDraftOf<string>(editOf(store.id, prompt.id));
	const [busy, setBusy] = useState(false);
	// Who comes back to what was begun is not pulled away from where one is.
	const [began, setBegan] = useState(false);
	const path = `/sessions/${store.id}/prompts/${prompt.id}`;
	const change = (body: object) => send('PATCH', path, body).catch(complain);
	if (draft !== null) {
		const save = async () => {
			if (busy) return;
			const text = draft.trim();
			if (text && text !== prompt.text) {
				setBusy(true);
				try {
					await send('PATCH', path, { prompt: text });
				} catch (error) {
					complain(error);
					return;
				} finally {
					setBusy(false);
				}
			}
			setDraft(null);
		};
		return (
			<li className="flex items-start gap-2 border-t border-line p-2">
				<textarea
					aria-label="The prompt"
					autoFocus={began}
					rows={2}
					className="field"
					value={draft}
					onChange={(event) => setDraft(event.target.value)}
					onKeyDown={(event) => {
						// What was written goes with Cancel only.
						if (event.key === 'Escape') {
							if (draft.trim() === prompt.text) setDraft(null);
							else event.currentTarget.blur();
						}
						if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) save();
					}}
				/>
				<Button kind="primary" busy={busy} onClick={save}>
					Save
				</Button>
				<Button kind="quiet" disabled={busy} onClick={() => setDraft(null)}>
					Cancel
				</Button>
			</li>
		);
	}
	return (
		<li className="flex items-center border-t border-line pl-2 text-sm">
			<span className="min-w-0 flex-1 truncate" title={visible(prompt.text)}>
				{visible(prompt.text)}
			</span>
			<span className="px-2 text-xs text-muted">{[prompt.author, ...(prompt.editors ?? [])].join(', ')}</span>
			<IconButton
				icon="up"
				label="Earlier"
				size={12}
				className="size-7"
				disabled={!before}
				onClick={() => change({ place: { before } })}
			/>
			<IconButton
				icon="down"
				label="Later"
				size={12}
				className="size-7"
				disabled={last}
				onClick={() => change({ place: after ? { before: after } : 'last' })}
			/>
			<IconButton
				icon="edit"
				label="Change it"
				size={12}
				className="size-7"
				onClick={() => {
					setBegan(true);
					setDraft(prompt.text);
				}}
			/>
			<IconButton
				icon="cross"
				label="Remove it"
				size={12}
				className="size-7"
				onClick={() => send('DELETE', path).catch(complain)}
			/>
		</li>
	);
}
