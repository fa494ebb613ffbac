// The log itself, from its newest event back, and what the sandbox reached.
import { useInfiniteQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { VList } from 'virtua';
import { get } from '../../api/client';
import type { Event, EventPage } from '../../api/types';
import { type SessionStore, useLive } from '../../live/store';
import { visible } from '../../text/hidden';
import { bytes, plural, time } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Failure, Waiting } from '../../ui/parts';

const PAGE = 500;

export default function Events({ store }: { store: SessionStore }) {
	const seq = useLive(store, ({ state }) => state.seq);
	const hosts = useLive(store, ({ state }) => [...state.egress.values()]);
	const [top, setTop] = useState(seq);
	const older = useInfiniteQuery({
		queryKey: ['events', store.id, top],
		initialPageParam: Math.max(0, top - PAGE),
		queryFn: ({ pageParam, signal }) =>
			get<EventPage>(`/sessions/${store.id}/events?after=${pageParam}&limit=${Math.min(PAGE, 1000)}`, signal).then(
				(page) => ({ ...page, after: pageParam }),
			),
		getNextPageParam: (page) => (page.after > 0 ? Math.max(0, page.after - PAGE) : undefined),
		staleTime: Number.POSITIVE_INFINITY,
	});
	const events = useMemo(() => {
		const seen = new Set<number>();
		const all: Event[] = [];
		for (const page of older.data?.pages ?? []) {
			for (const event of page.events.toReversed()) {
				if (seen.has(event.seq)) continue;
				seen.add(event.seq);
				all.push(event);
			}
		}
		return all;
	}, [older.data]);
	if (older.error) return <Failure error={older.error} again={() => older.refetch()} className="m-4" />;
	if (older.isPending) return <Waiting>Reading the log</Waiting>;
	return (
		<div className="flex min-h-0 flex-1 flex-col">
			{hosts.length > 0 && (
				<section aria-label="Egress" className="max-h-[35%] shrink-0 overflow-y-auto border-b border-line px-4 py-2">
					<h2 className="heading mb-1">What the sandbox reached</h2>
					<table className="code w-full text-left">
						<thead className="text-muted">
							<tr>
								<th className="font-normal">host</th>
								<th className="font-normal">decision</th>
								<th className="font-normal">rule</th>
								<th className="text-right font-normal">connections</th>
								<th className="text-right font-normal">received</th>
							</tr>
						</thead>
						<tbody>
							{hosts.map((host) => (
								<tr key={`${host.host}:${host.port}:${host.allowed}`}>
									<td className="break-words">
										{visible(host.host)}:{host.port}
									</td>
									<td className={host.allowed ? 'text-good' : 'text-bad'}>{host.allowed ? 'allowed' : 'refused'}</td>
									<td className="break-words">{host.rule}</td>
									<td className="tabular text-right">{host.connections}</td>
									<td className="tabular text-right">{bytes(host.received)}</td>
								</tr>
							))}
						</tbody>
					</table>
				</section>
			)}
			<VList
				className="min-h-0 flex-1"
				onScrollEnd={() => {
					if (older.hasNextPage && !older.isFetching) older.fetchNextPage();
				}}
			>
				{seq > top ? (
					<p key="new" className="px-4 py-1 text-xs text-muted">
						{plural(seq - top, 'event')} since this was read{' '}
						<button type="button" className="target text-accent underline" onClick={() => setTop(seq)}>
							Show them
						</button>
					</p>
				) : (
					<span key="new" />
				)}
				{events.map((event) => (
					<Line key={event.seq} event={event} />
				))}
			</VList>
		</div>
	);
}

function Line({ event }: { event: Event }) {
	const [open, setOpen] = useState(false);
	return (
		<div className="border-b border-line">
			<button
				type="button"
				aria-expanded={open}
				onClick={() => setOpen(!open)}
				className="target code flex w-full items-center gap-3 px-4 py-1 text-left hover:bg-sunken"
			>
				<Icon name={open ? 'down' : 'right'} size={10} className="text-muted" />
				<span className="tabular w-12 shrink-0 text-right text-muted">{event.seq}</span>
				<span className="w-12 shrink-0 text-muted">{time(event.at)}</span>
				<span className="w-40 shrink-0 truncate font-semibold">{event.type}</span>
				<span className="min-w-0 flex-1 truncate text-muted max-md:hidden">
					{visible(JSON.stringify(event.data).slice(0, 200))}
				</span>
			</button>
			{open && (
				<pre className="code max-h-96 overflow-auto bg-sunken px-4 py-2 break-words whitespace-pre-wrap">
					{visible(JSON.stringify(event, null, 2))}
				</pre>
			)}
		</div>
	);
}
