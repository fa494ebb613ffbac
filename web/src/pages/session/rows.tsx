// One row of the conversation.
import { memo, useState } from 'react';
import type { Item } from '../../api/types';
import { describeCall, summarise } from '../../live/derive';
import type { Row } from '../../live/rows';
import type { Shortened } from '../../live/shorten';
import { currentTurn, type ItemView, type Note } from '../../live/state';
import { type SessionStore, useLive } from '../../live/store';
import { visible } from '../../text/hidden';
import { Markdown } from '../../text/markdown';
import { count, duration, fullTime, money, plural, time } from '../../ui/format';
import { Icon, type IconName } from '../../ui/icons';
import { Link, paths } from '../../ui/router';
import { lookOf } from '../../ui/status';
import { Approval } from './approval';
import { Report } from './report';
import { ResultCard } from './result';
import { More, ToolBody } from './tool';

export const RowView = memo(function RowView({ row, store }: { row: Row; store: SessionStore }) {
	switch (row.type) {
		case 'item':
			return <ItemRow id={row.item} store={store} />;
		case 'group':
			return <GroupRow items={row.items} store={store} />;
		case 'approval':
			return <Approval id={row.approval} store={store} />;
		case 'note':
			return <NoteRow note={row.entry.note} at={row.entry.at} />;
		case 'end':
			return <EndRow turn={row.turn} store={store} />;
		case 'result':
			return <ResultCard store={store} />;
		case 'since':
			return <SinceRow seq={row.seq} store={store} />;
	}
});

function ItemRow({ id, store }: { id: string; store: SessionStore }) {
	const view = useLive(store, ({ state }) => state.items.get(id));
	if (!view) return null;
	const { item } = view;
	switch (item.kind) {
		case 'prompt':
			return <PromptRow view={view} store={store} />;
		case 'message':
			return (
				<div className="py-2">
					<WholeText view={view} session={store.id}>
						{(text) => <Markdown text={text || (view.live?.text?.text ?? '')} session={store.id} />}
					</WholeText>
					{view.live?.text?.gap && (
						<p className="text-xs text-muted">Some of it was missed; all of it comes when it is complete.</p>
					)}
					{item.status === 'cancelled' && <p className="mt-1 text-xs text-muted">Stopped here</p>}
				</div>
			);
		case 'reasoning':
			return <ReasoningRow view={view} session={store.id} />;
		case 'tool_call':
			return <ToolRow view={view} store={store} />;
		case 'report':
			return <Report view={view} session={store.id} />;
		case 'notice':
			return (
				<Fold icon="bell" title="Note to the agent" detail={firstLine(item.text)}>
					<p className="code px-3 py-2 whitespace-pre-wrap break-words">{visible(item.text)}</p>
				</Fold>
			);
	}
}

const firstLine = (text: string) => text.trim().split('\n', 1)[0] ?? '';

function PromptRow({ view, store }: { view: ItemView; store: SessionStore }) {
	const { item } = view;
	const author = useLive(store, ({ state }) =>
		item.kind === 'prompt' ? state.prompts.get(item.prompt)?.author : undefined,
	);
	if (item.kind !== 'prompt') return null;
	return (
		<div className="mt-3 rounded-md bg-accent-soft px-3 py-2">
			<p className="mb-0.5 flex gap-2 text-xs text-muted">
				<span className="font-semibold text-text">{author ?? 'somebody'}</span>
				<time dateTime={view.startedAt} title={fullTime(view.startedAt)}>
					{time(view.startedAt)}
				</time>
			</p>
			<WholeText view={view} session={store.id}>
				{(text) => <p className="break-words whitespace-pre-wrap">{visible(text)}</p>}
			</WholeText>
			{item.images?.length ? <p className="mt-1 text-xs text-muted">{plural(item.images.length, 'image')}</p> : null}
		</div>
	);
}

/** What somebody said, and where only its beginning is kept here, the rest of it from the log. */
function WholeText({
	view,
	session,
	children,
}: {
	view: ItemView;
	session: string;
	children: (text: string) => React.ReactNode;
}) {
	const [whole, setWhole] = useState<Item | null>(null);
	const item = whole ?? view.item;
	const left = (view.item as Shortened).left_out;
	return (
		<>
			{children('text' in item ? item.text : '')}
			{left && !whole ? (
				<p className="text-xs">
					<More seq={view.seq} session={session} show={setWhole} left={left} />
				</p>
			) : null}
		</>
	);
}

function ReasoningRow({ view, session }: { view: ItemView; session: string }) {
	const { item } = view;
	if (item.kind !== 'reasoning') return null;
	const text = item.text || (view.live?.reasoning?.text ?? view.live?.text?.text ?? '');
	if (!view.endedAt) {
		return (
			<p className="line-clamp-3 py-1 text-sm break-words whitespace-pre-wrap text-muted">
				{visible(text.slice(-400))}
			</p>
		);
	}
	return (
		<Fold icon="thought" title="thought" detail={firstLine(text)}>
			<WholeText view={view} session={session}>
				{(whole) => (
					<p className="px-3 py-2 text-sm break-words whitespace-pre-wrap text-muted">{visible(whole || text)}</p>
				)}
			</WholeText>
		</Fold>
	);
}

const icons: Record<string, IconName> = {
	shell: 'terminal',
	process: 'terminal',
	read: 'file',
	list: 'folder',
	search: 'search',
	write: 'edit',
	edit: 'edit',
	apply_patch: 'edit',
	plan: 'list',
	check: 'check',
	web_fetch: 'globe',
	ask: 'person',
	remember: 'book',
	recall: 'book',
};

/** One line that opens. */
export function Fold({
	icon,
	title,
	detail,
	facts,
	bad = false,
	open: begin = false,
	mono = false,
	children,
}: {
	icon: IconName;
	title: string;
	detail?: string | undefined;
	facts?: React.ReactNode;
	bad?: boolean;
	open?: boolean;
	mono?: boolean;
	children: React.ReactNode;
}) {
	const [open, setOpen] = useState(begin);
	return (
		<div className="py-px">
			<button
				type="button"
				aria-expanded={open}
				onClick={() => setOpen(!open)}
				className="target -mx-2 flex min-h-7 w-[calc(100%+16px)] items-center gap-2 rounded-md px-2 text-left text-sm hover:bg-sunken"
			>
				<Icon name={open ? 'down' : 'right'} size={12} className="text-muted" />
				<Icon name={icon} size={14} className={bad ? 'text-bad' : 'text-muted'} />
				<span className="shrink-0">{title}</span>
				<span className={`min-w-0 flex-1 truncate text-muted ${mono ? 'code' : ''}`}>{detail && visible(detail)}</span>
				<span className="tabular flex shrink-0 gap-3 text-xs text-muted">{facts}</span>
			</button>
			{open && <div className="mt-1 mb-2 overflow-hidden rounded-md border border-line bg-surface">{children}</div>}
		</div>
	);
}

function ToolRow({ view, store }: { view: ItemView; store: SessionStore }) {
	const { item } = view;
	const stops = useLive(store, ({ state }) => state.waiting !== null);
	if (item.kind !== 'tool_call') return null;
	const { verb, past, object } = describeCall(item.tool, item.input);
	const running = !view.endedAt;
	const failed = item.status === 'failed';
	const state = item.status === 'interrupted' ? 'interrupted' : item.status === 'cancelled' ? 'stopped' : null;
	return (
		<Fold
			key={!running ? 'ended' : stops ? 'waits' : 'running'}
			icon={icons[item.tool] ?? 'wrench'}
			// Of a call that waits for a person, or behind one that does, nothing has begun; a question is asked.
			title={!running ? past : stops && item.tool !== 'ask' ? 'Asked for' : verb}
			detail={object}
			mono
			bad={failed}
			open={(running && !stops && item.tool === 'shell') || failed}
			facts={
				<>
					{running && <span className="text-working">{stops ? 'waits' : 'running'}</span>}
					{state && <span>{state}</span>}
					{item.duration_ms != null && <span>{duration(item.duration_ms)}</span>}
					{item.share?.cost_usd ? <span className="max-md:hidden">{money(item.share.cost_usd)}</span> : null}
					{item.exit_code != null && item.exit_code !== 0 ? (
						<span className="text-bad">exit {item.exit_code}</span>
					) : failed ? (
						<span className="text-bad">failed</span>
					) : null}
				</>
			}
		>
			<ToolBody view={view} session={store.id} waits={stops} />
		</Fold>
	);
}

function GroupRow({ items, store }: { items: string[]; store: SessionStore }) {
	const views = useLive(store, ({ state }) =>
		items.map((id) => state.items.get(id)).filter((view) => view !== undefined),
	);
	const [open, setOpen] = useState(false);
	let took = 0;
	let cost = 0;
	for (const { item } of views) {
		if (item.kind !== 'tool_call') continue;
		took += item.duration_ms ?? 0;
		cost += item.share?.cost_usd ?? 0;
	}
	return (
		<div className="py-px">
			<button
				type="button"
				aria-expanded={open}
				onClick={() => setOpen(!open)}
				className="target -mx-2 flex min-h-7 w-[calc(100%+16px)] items-center gap-2 rounded-md px-2 text-left text-sm hover:bg-sunken"
			>
				<Icon name={open ? 'down' : 'right'} size={12} className="text-muted" />
				<span className="min-w-0 flex-1 truncate text-muted">{summarise(views)}</span>
				<span className="tabular flex shrink-0 gap-3 text-xs text-muted">
					<span>{duration(took)}</span>
					{cost > 0 && <span className="max-md:hidden">{money(cost)}</span>}
				</span>
			</button>
			{open && (
				<div className="ml-1.5 border-l border-line pl-3">
					{views.map((view) =>
						view.item.kind === 'reasoning' ? (
							<ReasoningRow key={view.id} view={view} session={store.id} />
						) : (
							<ToolRow key={view.id} view={view} store={store} />
						),
					)}
				</div>
			)}
		</div>
	);
}

function SinceRow({ seq, store }: { seq: number; store: SessionStore }) {
	const text = useLive(store, ({ state }) => {
		let calls = 0;
		let prompts = 0;
		let checks = 0;
		for (const turn of state.turns) {
			for (const entry of turn.entries) {
				if (entry.seq <= seq || entry.kind !== 'item') continue;
				const kind = state.items.get(entry.item)?.item.kind;
				if (kind === 'tool_call') calls += 1;
				if (kind === 'prompt') prompts += 1;
				if (kind === 'report') checks += 1;
			}
		}
		const parts = [plural(state.seq - seq, 'event')];
		if (prompts) parts.push(plural(prompts, 'prompt'));
		if (calls) parts.push(plural(calls, 'call'));
		if (checks) parts.push(plural(checks, 'check'));
		const last = state.turns.at(-1);
		if (last?.outcome) parts.push(`the turn is ${last.outcome.replaceAll('_', ' ')}`);
		return parts.join(', ');
	});
	return (
		<p className="my-3 flex items-center gap-3 text-xs text-accent">
			<span className="h-px flex-1 bg-accent opacity-40" />
			Since you looked: {text}
			<span className="h-px flex-1 bg-accent opacity-40" />
		</p>
	);
}

function EndRow({ turn: id, store }: { turn: string; store: SessionStore }) {
	const turn = useLive(store, ({ state }) => state.turns.find((one) => one.id === id));
	const running = useLive(store, ({ state }) => currentTurn(state) !== null);
	if (!turn?.outcome || !turn.receipt) return null;
	const look = lookOf(turn.outcome);
	const { receipt } = turn;
	return (
		<div className={`my-3 border-t border-line pt-2 text-sm ${running ? '' : 'mb-1'}`}>
			<p className="flex flex-wrap items-center gap-x-3 gap-y-1">
				<span className={`inline-flex items-center gap-1 font-medium ${look.colour}`}>
					<Icon name={look.icon} size={14} /> {look.word}
				</span>
				<span className="tabular flex flex-wrap gap-x-3 text-xs text-muted">
					<span>{duration(receipt.duration_ms)}</span>
					<span>{plural(receipt.steps, 'step')}</span>
					<span>{plural(receipt.tools_completed, 'call')}</span>
					{receipt.tools_skipped ? <span>{receipt.tools_skipped} skipped</span> : null}
					{receipt.files_changed ? (
						// With what turns before it changed, which is how it is counted.
						<Link
							to={paths.session(store.id, 'changes')}
							className="target inline-flex items-center gap-1 hover:underline"
						>
							{plural(receipt.files_changed, 'file')} {receipt.files_changed === 1 ? 'differs' : 'differ'} from the base{' '}
							<span className="text-good">+{receipt.insertions}</span>{' '}
							<span className="text-bad">−{receipt.deletions}</span>
						</Link>
					) : null}
					<span>{money(receipt.spend.cost_usd)}</span>
				</span>
			</p>
			{turn.reason && <p className="mt-1 break-words whitespace-pre-wrap text-muted">{visible(turn.reason)}</p>}
			{receipt.skipped && receipt.skipped.length > 0 && (
				<p className="mt-1 text-xs text-muted">
					Not done:{' '}
					{receipt.skipped
						.slice(0, 5)
						.map((work) => visible(work.what))
						.join(', ')}
					{receipt.skipped.length > 5 && ` and ${receipt.skipped.length - 5} more`}
				</p>
			)}
			{receipt.weakened && receipt.weakened.length > 0 && (
				<p className="mt-1 text-xs text-needs">
					Checks say less than before:{' '}
					{receipt.weakened
						.slice(0, 3)
						.map((one) => visible(`${one.what} (${one.file})`))
						.join(', ')}
				</p>
			)}
		</div>
	);
}

function NoteRow({ note, at }: { note: Note; at: string }) {
	const { icon, text, tone } = told(note);
	return (
		<p className={`flex items-start gap-2 py-1 text-sm ${tone}`} title={fullTime(at)}>
			<Icon name={icon} size={14} className="mt-[3px]" />
			<span className="min-w-0 break-words">{typeof text === 'string' ? visible(text) : text}</span>
		</p>
	);
}

function told(note: Note): { icon: IconName; text: React.ReactNode; tone: string } {
	const muted = 'text-muted';
	switch (note.kind) {
		case 'retry':
			return {
				icon: 'retry',
				tone: 'text-needs',
				text: (
					<>
						Try {note.attempt} of {note.attempts} after {duration(note.delayMs)}
						<span className="block break-words text-muted">{visible(note.reason)}</span>
					</>
				),
			};
		case 'model':
			return {
				icon: 'gear',
				tone: note.reason ? 'text-needs' : muted,
				text: note.reason
					? `${note.model} takes over from ${note.from}${note.turn ? ' for this turn' : ''}: ${note.reason}`
					: `${note.by} switched from ${note.from} to ${note.model}`,
			};
		case 'error':
			return {
				icon: 'warning',
				tone: 'text-bad',
				text: (
					<>
						{visible(note.message)}
						{note.hint && <span className="block text-muted">{visible(note.hint)}</span>}
					</>
				),
			};
		case 'limit':
			return { icon: 'warning', tone: 'text-needs', text: note.message };
		case 'service':
			return {
				icon: note.up ? 'check' : 'warning',
				tone: note.up ? muted : 'text-needs',
				text: `${note.service} is ${note.up ? 'up' : 'down'}${note.detail ? `: ${note.detail}` : ''}`,
			};
		case 'budget':
			return {
				icon: 'warning',
				tone: 'text-needs',
				text: `${note.of === 'usd' ? `${money(note.used)} of ${money(note.limit)}` : `${count(note.used)} of ${count(note.limit)} ${note.of}`} of the ${note.scope}'s budget is used`,
			};
		case 'budgets':
			return { icon: 'gear', tone: muted, text: `${note.by} changed the budget` };
		case 'compacted':
			return {
				icon: 'archive',
				tone: muted,
				text: `The model's context was made shorter: ${count(note.compaction.tokens_before)} to ${count(note.compaction.tokens_after)} tokens`,
			};
		case 'delivery': {
			const { delivery } = note;
			const of = delivery.repository ? `${delivery.repository}: ` : '';
			if (delivery.state === 'failed')
				return {
					icon: 'warning',
					tone: 'text-bad',
					text: `${of}Not delivered: ${delivery.error ?? 'the push was refused'}`,
				};
			const number = delivery.number ? `#${delivery.number} ` : '';
			const review = delivery.review?.state;
			const words: Record<string, string> = {
				intended: `Pushing ${delivery.branch}`,
				pushed: `Pushed ${delivery.branch}`,
				opening: `Pushed ${delivery.branch}, opening its pull request`,
				opened: `Pull request ${delivery.number ? `#${delivery.number} ` : ''}is open`,
				unknown: `Nobody knows whether ${delivery.branch} arrived; deliver it again to find out`,
			};
			const text =
				of +
				(review && review !== 'open'
					? `Pull request ${number}is ${review}`
					: (words[delivery.state] ?? `Delivery: ${delivery.state}`));
			return {
				icon: 'ship',
				tone: delivery.state === 'unknown' ? 'text-needs' : 'text-good',
				text:
					delivery.url && /^https?:/.test(delivery.url) ? (
						<a href={delivery.url} target="_blank" rel="noopener noreferrer" className="underline">
							{visible(text)}
						</a>
					) : (
						text
					),
			};
		}
		case 'sandbox':
			return note.state === 'lost'
				? {
						icon: 'warning',
						tone: 'text-needs',
						text: `The sandbox was lost${note.detail ? `: ${note.detail}` : ''}. It is made again from its last snapshot.`,
					}
				: { icon: 'box', tone: muted, text: `Building the image${note.detail ? `: ${note.detail}` : ''}` };
		case 'memory':
			return { icon: 'book', tone: muted, text: note.text };
		case 'restored':
			return { icon: 'retry', tone: 'text-needs', text: 'The session was put back from a backup' };
		case 'paused':
			return { icon: 'pause', tone: 'text-needs', text: `The queue is paused: ${note.reason}` };
		case 'stopping':
			return { icon: 'stop', tone: muted, text: `${note.by} stopped the turn` };
		case 'archived':
			return {
				icon: 'archive',
				tone: muted,
				text: note.away ? `${note.by} put the session into the archive` : `${note.by} brought the session back`,
			};
		case 'other':
			return {
				icon: 'dot',
				tone: muted,
				text: `${note.type} (this page is older than the server; reload it to see more)`,
			};
	}
}
