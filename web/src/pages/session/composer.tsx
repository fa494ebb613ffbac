// Below the conversation: what goes on now, what waits, and where one writes the next prompt.

import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import { send } from '../../api/client';
import { useMe, useModels } from '../../api/queries';
import { type Activity, activityOf } from '../../live/derive';
import { live } from '../../live/link';
import { currentTurn } from '../../live/state';
import { type SessionStore, useLive } from '../../live/store';
import { visible } from '../../text/hidden';
import { useDraft } from '../../ui/draft';
import { duration } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { mod } from '../../ui/keys';
import { Menu } from '../../ui/menu';
import { useNow } from '../../ui/now';
import { Button, IconButton, Kbd } from '../../ui/parts';
import { Microphone } from '../../ui/speech';
import { complain, say } from '../../ui/toast';
import { QueueList } from './queue';
import { StopDialog } from './stop';

export function Composer({ store }: { store: SessionStore }) {
	const [text, setText] = useDraft(store.id);
	const working = useLive(store, ({ state }) => currentTurn(state) !== null);
	const stopping = useLive(store, ({ state }) => currentTurn(state)?.stoppingAt != null);
	const model = useLive(store, ({ state }) => state.standIn ?? state.model);
	const models = useModels().data ?? [];
	const [asking, setAsking] = useState(false);
	const typed = useRef(0);
	const field = useRef<HTMLTextAreaElement>(null);

	// As high as its text, up to a third of the screen.
	// biome-ignore lint/correctness/useExhaustiveDependencies: its height follows its text.
	useEffect(() => {
		const area = field.current;
		const around = area?.parentElement;
		if (!area || !around) return;
		// While it is measured its place is as high as before, or the conversation above would be moved by it.
		around.style.minHeight = `${around.offsetHeight}px`;
		area.style.height = 'auto';
		area.style.height = `${Math.min(area.scrollHeight, window.innerHeight / 3)}px`;
		around.style.minHeight = '';
	}, [text]);

	const submit = (now = false) => {
		const prompt = text.trim();
		if (!prompt) return;
		setText('');
		store.prompt(prompt, now);
	};
	const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
		if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) {
			event.preventDefault();
			submit(event.shiftKey);
		}
		if (event.key === 'Escape') event.currentTarget.blur();
	};
	const write = (value: string) => {
		setText(value);
		if (Date.now() - typed.current > 1500) {
			typed.current = Date.now();
			live.say({ type: 'typing', session: store.id });
		}
	};
	return (
		<div className="shrink-0 border-t border-line bg-background pb-[env(safe-area-inset-bottom)]">
			<div className="mx-auto w-full max-w-[852px] px-4 pt-2 pb-3 max-md:px-2 max-md:pb-2">
				<Now store={store} />
				<QueueList
					store={store}
					takeBack={(taken) => {
						setText(text.trim() ? `${taken}\n\n${text}` : taken);
						field.current?.focus();
					}}
				/>
				<div className="flex items-end gap-2">
					<div className="min-w-0 flex-1 rounded-lg border border-line-strong bg-surface focus-within:border-accent">
						<textarea
							id="composer"
							ref={field}
							rows={1}
							aria-label={working ? 'Queue a follow-up' : 'Go on'}
							placeholder={working ? 'Queue a follow-up' : 'What next?'}
							className="block min-h-10 w-full resize-none max-md:min-h-11 bg-transparent px-3 py-2 outline-none"
							value={text}
							onChange={(event) => write(event.target.value)}
							onKeyDown={onKeyDown}
						/>
						<div className="flex items-center gap-1 px-1 pb-1">
							<Menu
								label="Model"
								align="start"
								trigger={
									<button
										type="button"
										className="target inline-flex h-7 items-center gap-1 rounded-md px-2 text-xs text-muted hover:bg-sunken"
										aria-label={`Model: ${model}`}
									>
										{model} <Icon name="down" size={10} />
									</button>
								}
								items={models.map((one) => ({
									label: one.name,
									hint: one.model,
									checked: one.name === model,
									onSelect: () => {
										send('PATCH', `/sessions/${store.id}`, { model: one.name }).then(
											() => say(`${one.name} works from the next step on`),
											complain,
										);
									},
								}))}
							/>
							<Typing store={store} />
							<span className="ml-auto flex items-center gap-1">
								<Microphone onText={(more) => write(text ? `${text} ${more}` : more)} />
								{working && text.trim() && (
									<Button
										kind="quiet"
										className="h-7"
										onClick={() => submit(true)}
										title="Stops the turn under way and does this next"
									>
										Do it now
									</Button>
								)}
								<span className="max-md:hidden">
									<Kbd>{mod}Enter</Kbd>
								</span>
								<IconButton
									icon="send"
									label={working ? 'Queue it' : 'Send'}
									disabled={!text.trim()}
									onClick={() => submit()}
									className="text-accent"
								/>
							</span>
						</div>
					</div>
					{working && (
						<Button kind="danger" icon="stop" disabled={stopping} onClick={() => setAsking(true)}>
							{stopping ? 'Stopping' : 'Stop'}
						</Button>
					)}
				</div>
			</div>
			<StopDialog store={store} open={asking} close={() => setAsking(false)} />
		</div>
	);
}

/** One line on what goes on: what, since when, until when. */
function Now({ store }: { store: SessionStore }) {
	const there = useLive(store, ({ state }) => activityOf(state) !== null);
	const text = useLive(store, ({ state }) => activityOf(state)?.text ?? '');
	const activity = there ? activityOf(store.state) : null;
	return activity ? <NowLine key={text} activity={activity} /> : null;
}

function NowLine({ activity }: { activity: Activity }) {
	const now = useNow();
	const tones = { working: 'text-working', needs: 'text-needs', off: 'text-muted' };
	const left = activity.until ? activity.until.at - now : 0;
	return (
		<p className={`flex items-center gap-2 pb-1.5 text-xs ${tones[activity.tone]}`}>
			<span
				aria-hidden="true"
				className={`size-2 shrink-0 rounded-full bg-current ${activity.tone === 'working' ? 'pulse' : ''}`}
			/>
			<span className="line-clamp-2 min-w-0 break-words">{visible(activity.text)}</span>
			<span className="tabular ml-auto shrink-0 text-muted">
				{duration(now - Date.parse(activity.since))}
				{activity.until && left > 0 && `, ${activity.until.what} ${duration(left)}`}
			</span>
		</p>
	);
}

function Typing({ store }: { store: SessionStore }) {
	const typing = useLive(store, ({ state }) => state.typing);
	const me = useMe().data?.name;
	const now = useNow();
	const people = [...typing].filter(([name, at]) => now - at < 4000 && name !== me).map(([name]) => name);
	if (people.length === 0) return null;
	return (
		<span className="flex min-w-0 gap-1 text-xs text-muted">
			<span className="truncate">{people.join(', ')}</span>{' '}
			<span className="shrink-0">{people.length === 1 ? 'writes' : 'write'}</span>
		</span>
	);
}
