// The answer before the log: what changed, whether checks pass, what it cost, and the button that delivers it.
import { lastReports, statusOf } from '../../live/derive';
import { type SessionStore, useLive } from '../../live/store';
import { visible } from '../../text/hidden';
import { Markdown } from '../../text/markdown';
import { duration, money, plural } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Button } from '../../ui/parts';
import { Link, paths, useSearch } from '../../ui/router';
import { StatusMark } from '../../ui/status';
import { Deliver } from './review/deliver';

export function ResultCard({ store }: { store: SessionStore }) {
	const status = useLive(store, ({ state }) => statusOf(state));
	const turn = useLive(store, ({ state }) => state.turns.findLast((one) => one.finishedAt) ?? null);
	const reports = useLive(store, ({ state }) => lastReports(state).map((one) => one.view));
	const cost = useLive(store, ({ state }) => state.spend.cost_usd);
	const delivery = useLive(store, ({ state }) => state.delivery);
	const words = useLive(store, ({ state }) => {
		const entries = state.turns.at(-1)?.entries ?? [];
		for (let at = entries.length - 1; at >= 0; at -= 1) {
			const entry = entries[at];
			const item = entry?.kind === 'item' ? state.items.get(entry.item)?.item : undefined;
			if (item?.kind === 'message' && item.text.trim()) return item.text;
		}
		return null;
	});
	// What can be done about it, where an error of this turn said so.
	const hint = useLive(store, ({ state }) => {
		const last = state.turns.findLast((one) => one.finishedAt);
		if (!last?.reason) return null;
		const said = last.entries.findLast((entry) => entry.kind === 'note' && entry.note.kind === 'error');
		return said?.kind === 'note' && said.note.kind === 'error' ? said.note.hint : null;
	});
	const [, change] = useSearch();
	if (!turn?.receipt) return null;
	const { receipt } = turn;
	const changed = receipt.files_changed ?? 0;
	return (
		<section aria-label="Result" className="mt-2 mb-4 overflow-hidden rounded-lg border border-line bg-surface">
			<div className="flex flex-wrap items-center gap-x-4 gap-y-1 border-b border-line px-4 py-2 text-sm">
				<span className="font-semibold">
					<StatusMark status={status} />
				</span>
				<span className="tabular flex flex-wrap items-center gap-x-4 gap-y-1 text-muted">
					{changed ? (
						<Link
							to={paths.session(store.id, 'changes')}
							className="target inline-flex items-center gap-1 hover:underline"
						>
							{plural(changed, 'file')} <span className="text-good">+{receipt.insertions}</span>{' '}
							<span className="text-bad">−{receipt.deletions}</span>
						</Link>
					) : (
						<span>nothing changed</span>
					)}
					{reports.map(
						({ id, item }) =>
							item.kind === 'report' && (
								<Link
									key={id}
									to={paths.session(store.id, 'checks')}
									className={`target inline-flex items-center gap-1 hover:underline ${item.passed ? 'text-good' : 'text-bad'}`}
								>
									<Icon name={item.passed ? 'check' : 'cross'} size={12} />
									{visible(item.check)} {item.passed ? 'passes' : 'fails'}
								</Link>
							),
					)}
					<span>{money(cost)}</span>
					<span>{duration(receipt.duration_ms)}</span>
				</span>
				<span className="ml-auto">{(changed > 0 || delivery) && <Deliver store={store} />}</span>
			</div>
			{turn.reason && (
				<div className="border-b border-line bg-needs-soft px-4 py-2 text-sm break-words">
					<p className="whitespace-pre-wrap">{visible(turn.reason)}</p>
					{hint && <p className="whitespace-pre-wrap text-muted">{visible(hint)}</p>}
					{(status === 'out_of_budget' || /slipway budget/.test(`${turn.reason} ${hint}`)) && (
						<Button className="my-1" onClick={() => change({ budget: '1' })}>
							Change the budget here
						</Button>
					)}
				</div>
			)}
			{words && (
				<div className="px-4 py-3">
					<Markdown text={words} session={store.id} />
				</div>
			)}
		</section>
	);
}
