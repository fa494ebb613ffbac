// What a call was given and what came out of it. Files as they were changed, commands with their output.
import { useEffect, useState } from 'react';
import { ask, get, inWords } from '../../api/client';
import type { EventPage, Item } from '../../api/types';
import { changesOf, given } from '../../diff/calls';
import { PatchView } from '../../diff/patch';
import type { Shortened } from '../../live/shorten';
import type { ItemView } from '../../live/state';
import { visible } from '../../text/hidden';
import { OutputText } from '../../text/output';
import { bytes } from '../../ui/format';

export function ToolBody({
	view,
	session,
	waits = false,
}: {
	view: ItemView;
	session: string;
	/** Whether it waits for a person before it begins. */
	waits?: boolean;
}) {
	const [whole, setWhole] = useState<Item | null>(null);
	const item = whole ?? view.item;
	if (item.kind !== 'tool_call') return null;
	const input = (item.input && typeof item.input === 'object' ? item.input : {}) as Record<string, unknown>;
	const command = item.tool === 'shell' ? given(item.input, 'command') : null;
	const changes = changesOf(item.tool, item.input);
	const running = !view.endedAt;
	const live = [view.live?.stdout, view.live?.stderr].filter((one) => one !== undefined);
	const left = ((item.output as Shortened | undefined)?.left_out ?? 0) + ((item as Shortened).left_out ?? 0);
	return (
		<div className="divide-y divide-line">
			{command !== null && (
				<pre className="code overflow-x-auto bg-sunken px-3 py-2 whitespace-pre-wrap break-words">
					$ {visible(command)}
				</pre>
			)}
			{changes && <PatchView files={changes} />}
			{command === null && !changes && !['read', 'list', 'plan'].includes(item.tool) && (
				<pre className="code max-h-60 overflow-auto bg-sunken px-3 py-2 whitespace-pre-wrap break-words">
					{visible(typeof item.input === 'string' ? item.input : JSON.stringify(input, null, 2))}
				</pre>
			)}
			{running && live.length === 0 && command !== null && (
				<p className="px-3 py-2 text-xs text-muted">{waits ? 'It has not begun' : 'Nothing printed yet'}</p>
			)}
			{running &&
				live.map((one, at) => (
					<div key={at}>
						{one.dropped > 0 && (
							<p className="px-3 pt-1 text-xs text-muted">{bytes(one.dropped)} before this are in the log</p>
						)}
						<OutputText text={one.text} follow most={240} />
					</div>
				))}
			{!running && item.output?.text && <OutputText text={item.output.text} />}
			{!running && !item.output?.text && command !== null && (
				<p className="px-3 py-2 text-xs text-muted">It printed nothing</p>
			)}
			<div className="flex gap-4 px-3 py-1 text-xs text-muted empty:hidden">
				{left && !whole ? <More seq={view.seq} session={session} show={setWhole} left={left} /> : null}
				{item.output?.blob && <Blob session={session} name={item.output.blob} size={item.output.bytes} />}
				{item.output?.images?.map((image) => (
					<span key={image.name}>{visible(image.name)}</span>
				))}
			</div>
		</div>
	);
}

/** As much is fetched without being asked for when an output is opened. */
const AT_ONCE = 256 * 1024;

/** Fetches what was left out of an item: at once where it is little. */
export function More({
	seq,
	session,
	show,
	left,
}: {
	seq: number;
	session: string;
	show: (item: Item) => void;
	left: number;
}) {
	const [state, setState] = useState<string | null>(null);
	// biome-ignore lint/correctness/useExhaustiveDependencies: it is asked for once, when it is opened.
	useEffect(() => {
		if (left <= AT_ONCE) fetchAll();
	}, []);
	const fetchAll = async () => {
		setState('Fetching the rest');
		try {
			const page = await get<EventPage>(`/sessions/${session}/events?after=${seq - 1}&limit=1`);
			const event = page.events[0];
			if (event?.type === 'item.completed' || event?.type === 'item.started') show(event.data.item);
			setState(null);
		} catch (error) {
			setState(inWords(error).title);
		}
	};
	return (
		<button type="button" className="target text-accent underline" onClick={fetchAll}>
			{state ?? `Show the ${bytes(left)} that were left out`}
		</button>
	);
}

/** The whole output, as a file of this browser: it may need a token, which a link cannot have. */
function Blob({ session, name, size }: { session: string; name: string; size: number }) {
	const [state, setState] = useState<string | null>(null);
	const open = async () => {
		setState('Fetching');
		try {
			const response = await ask('GET', `/sessions/${session}/outputs/${encodeURIComponent(name)}`, { accept: '*/*' });
			const url = URL.createObjectURL(
				new window.Blob([await response.arrayBuffer()], { type: 'text/plain;charset=utf-8' }),
			);
			const link = document.createElement('a');
			link.href = url;
			link.download = name;
			link.click();
			setTimeout(() => URL.revokeObjectURL(url), 60_000);
			setState(null);
		} catch (error) {
			setState(inWords(error).title);
		}
	};
	return (
		<button type="button" className="target text-accent underline" onClick={open}>
			{state ?? `Save all of it (${bytes(size)})`}
		</button>
	);
}
