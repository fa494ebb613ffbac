// The conversation, of which only the visible rows exist. The newest line stays in view until the reader scrolls away.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react';
import { VList, type VListHandle } from 'virtua';
import { activityOf, statusOf } from '../../live/derive';
import { Rows } from '../../live/rows';
import { type SessionStore, useLive } from '../../live/store';
import { visible } from '../../text/hidden';
import { Icon } from '../../ui/icons';
import { useKeys } from '../../ui/keys';
import { Safe } from '../../ui/safe';
import { RowView } from './rows';

export function Conversation({ store, since }: { store: SessionStore; since: number | null }) {
	const maker = useMemo(() => new Rows(), []);
	const ready = useLive(store, ({ state }) => state.live);
	// What is new is known when all of it is there.
	const first = useRef<{ since: number | null; from: number | null } | null>(null);
	if (ready && first.current?.since !== since)
		first.current = { since, from: since !== null && since < store.state.seq ? since : null };
	const from = first.current?.from ?? null;
	const rows = useLive(store, ({ state }) => maker.of(state, from));
	const version = useLive(store, (one) => one.version);
	const list = useRef<VListHandle>(null);
	const stuck = useRef(true);
	const placed = useRef(false);
	const [away, setAway] = useState<number | null>(null);
	const seq = useLive(store, ({ state }) => state.seq);

	const box = useRef<HTMLDivElement>(null);
	const last = useRef(0);
	/** How high the place of the conversation was when it was scrolled last. */
	const room = useRef(0);
	// At once and not by way of the list, which would go on until all of it is measured, also against a reader who scrolls
	// away meanwhile. What is measured later comes back to this through its new size.
	const stick = () => {
		const scroller = box.current?.firstElementChild;
		if (placed.current && stuck.current && scroller) scroller.scrollTop = scroller.scrollHeight;
	};
	const toEnd = () => {
		stuck.current = true;
		setAway(null);
		stick();
	};
	useKeys({ G: toEnd });

	// A finished session opens on its result, another one on what happens.
	useLayoutEffect(() => {
		if (!ready || placed.current || rows.length === 0) return;
		placed.current = true;
		const finished = rows[0]?.type === 'result' && statusOf(store.state) !== 'queued';
		stuck.current = !finished;
		if (finished) list.current?.scrollTo(0);
	}, [ready, rows, store]);

	// biome-ignore lint/correctness/useExhaustiveDependencies: the end moves with every change.
	useLayoutEffect(stick, [rows, version]);

	const onScroll = (offset: number) => {
		const scroller = box.current?.firstElementChild;
		if (!scroller || !placed.current) return;
		// Where the place became higher or lower, such as by what is written below, the browser scrolled and nobody else.
		if (scroller.clientHeight !== room.current) {
			room.current = scroller.clientHeight;
			last.current = offset;
			if (stuck.current) return stick();
		}
		// As it is at this moment: the list learns of its own size later.
		const end = scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 48;
		// Rows that turn out to be higher leave the end behind, too; who goes away goes up.
		const up = offset < last.current - 1;
		last.current = offset;
		lookForMark();
		if (end === stuck.current || !(end || up)) return;
		stuck.current = end;
		setAway(end ? null : store.state.seq);
	};
	// The mark of what is new may be out of sight; until it was seen there is a way to it.
	const mark = rows.findIndex((row) => row.type === 'since');
	const [found, setFound] = useState<number | null>(null);
	const lookForMark = () => {
		const handle = list.current;
		if (!handle || mark < 0 || found === from || !placed.current) return;
		const top = handle.getItemOffset(mark);
		if (top >= handle.scrollOffset && top < handle.scrollOffset + handle.viewportSize) setFound(from);
	};
	// biome-ignore lint/correctness/useExhaustiveDependencies: what is in view changes with the rows.
	useEffect(() => {
		const frame = requestAnimationFrame(lookForMark);
		return () => cancelAnimationFrame(frame);
	}, [mark, from, rows]);
	const missed = away === null ? 0 : seq - away;
	return (
		<div ref={box} className="relative min-h-0 flex-1">
			<VList
				ref={list}
				className="h-full pt-2 pb-4"
				onScroll={onScroll}
				onResize={stick}
				bufferSize={600}
				tabIndex={0}
				role="group"
				aria-label="Conversation"
				data={rows}
			>
				{(row) => (
					<div key={row.key} className="mx-auto w-full max-w-[820px] px-4">
						<Safe>
							<RowView row={row} store={store} />
						</Safe>
					</div>
				)}
			</VList>
			{mark >= 0 && found !== from && (
				<button
					type="button"
					onClick={() => {
						stuck.current = false;
						setAway(seq);
						setFound(from);
						list.current?.scrollToIndex(mark, { align: 'start' });
					}}
					className="appear target absolute top-3 left-1/2 flex h-8 -translate-x-1/2 items-center gap-1.5 rounded-full border border-line-strong bg-surface px-3 text-xs font-medium shadow-overlay"
				>
					<Icon name="up" size={12} /> See what came since you looked
				</button>
			)}
			{missed > 0 && (
				<button
					type="button"
					onClick={toEnd}
					className="appear target absolute bottom-3 left-1/2 flex h-8 -translate-x-1/2 items-center gap-1.5 rounded-full border border-line-strong bg-surface px-3 text-xs font-medium shadow-overlay"
				>
					<Icon name="down" size={12} /> Jump to live · {missed} new
				</button>
			)}
			<Announcer store={store} />
		</div>
	);
}

/** What happens, for those who listen: at most every few seconds, and whole sentences. */
function Announcer({ store }: { store: SessionStore }) {
	const [text, setText] = useState('');
	useEffect(() => {
		const timer = setInterval(() => {
			const activity = activityOf(store.state);
			const status = statusOf(store.state);
			setText(activity ? visible(activity.text) : `The session is ${status.replaceAll('_', ' ')}`);
		}, 4000);
		return () => clearInterval(timer);
	}, [store]);
	return (
		<div role="log" aria-live="polite" aria-label="What happens" className="sr-only">
			{text}
		</div>
	);
}
