// The prompts that wait, to be changed, moved and removed; and those that are on their way to the server.
import { useState } from 'react';
import { send } from '../../api/client';
import type { QueuedPrompt } from '../../api/types';
import { type SessionStore, useLive } from '../../live/store';
import { visible } from '../../text/hidden';
import { Button, IconButton } from '../../ui/parts';
import { complain } from '../../ui/toast';

export function QueueList({ store }: { store: SessionStore }) {
	const queue = useLive(store, ({ state }) => state.queue);
	const pending = useLive(store, (one) => one.pending);
	const paused = useLive(store, ({ state }) => state.paused);
	if (queue.length === 0 && pending.length === 0 && !paused) return null;
	const resume = () => send('PUT', `/sessions/${store.id}/queue`, { paused: false }).catch(complain);
	const pause = () => send('PUT', `/sessions/${store.id}/queue`, { paused: true }).catch(complain);
	return (
		<section aria-label="Queue" className="mb-2 rounded-md border border-line">
			<header className="flex items-center px-2 text-xs text-muted">
				<span className="flex-1 py-1">
					{[
						queue.length > 0 && `${queue.length} queued`,
						pending.length > 0 && `${pending.length} on the way`,
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
				{pending.map((one) => (
					<li key={one.key} className="flex items-center gap-2 border-t border-line px-2 py-1 text-sm">
						<span className="min-w-0 flex-1 truncate">{visible(one.text)}</span>
						{one.state === 'sending' ? (
							<span className="text-xs text-muted">{one.prompt ? 'the server has it' : 'sending'}</span>
						) : (
							<>
								<span className="text-xs text-bad">{one.error}</span>
								<Button kind="quiet" className="h-6" onClick={() => store.retry(one.key)}>
									Try again
								</Button>
								<IconButton icon="cross" label="Discard" size={12} onClick={() => store.discard(one.key)} />
							</>
						)}
					</li>
				))}
			</ol>
		</section>
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
	const [draft, setDraft] = useState<string | null>(null);
	const path = `/sessions/${store.id}/prompts/${prompt.id}`;
	const change = (body: object) => send('PATCH', path, body).catch(complain);
	if (draft !== null) {
		const save = () => {
			setDraft(null);
			if (draft.trim() && draft.trim() !== prompt.text) change({ prompt: draft.trim() });
		};
		return (
			<li className="flex items-start gap-2 border-t border-line p-2">
				<textarea
					aria-label="The prompt"
					autoFocus
					rows={2}
					className="field"
					value={draft}
					onChange={(event) => setDraft(event.target.value)}
					onKeyDown={(event) => {
						if (event.key === 'Escape') setDraft(null);
						if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) save();
					}}
				/>
				<Button kind="primary" onClick={save}>
					Save
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
			<IconButton icon="edit" label="Change it" size={12} className="size-7" onClick={() => setDraft(prompt.text)} />
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
