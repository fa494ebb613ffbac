// The rows of the conversation. Calls that went well and follow each other are one row; what failed or still runs stands
// alone. The rows of a turn are made again only when the turn changed.
import type { Entry, ItemView, SessionState, Turn } from './state';

export type Row =
	| { key: string; type: 'item'; item: string; turn: string }
	| { key: string; type: 'group'; items: string[]; turn: string }
	| { key: string; type: 'approval'; approval: string }
	| { key: string; type: 'note'; entry: Extract<Entry, { kind: 'note' }> }
	| { key: string; type: 'end'; turn: string }
	| { key: string; type: 'result' }
	| { key: string; type: 'since'; seq: number };

interface Known {
	version: number;
	rows: Row[];
	/** Number of the event that each row begins with. */
	seqs: number[];
}

/** Made for one session; keeps what it made. */
export class Rows {
	private readonly known = new Map<string, Known>();
	private last: { shape: number; since: number | null; rows: Row[] } | null = null;

	/** `since`: the last event that the reader has seen before; what is new is marked. */
	of(state: SessionState, since: number | null): Row[] {
		if (this.last && this.last.shape === state.shape && this.last.since === since) return this.last.rows;
		const rows: Row[] = [];
		let marked = since === null || since <= 0;
		const last = state.turns.at(-1);
		if (last?.finishedAt) rows.push({ key: 'result', type: 'result' });
		for (const turn of state.turns) {
			const { rows: more, seqs } = this.ofTurn(state, turn);
			for (const [at, row] of more.entries()) {
				if (!marked && since !== null && (seqs[at] ?? 0) > since) {
					marked = true;
					if (rows.length > 1) rows.push({ key: 'since', type: 'since', seq: since });
				}
				rows.push(row);
			}
		}
		this.last = { shape: state.shape, since, rows };
		return rows;
	}

	private ofTurn(state: SessionState, turn: Turn): Known {
		const known = this.known.get(turn.id);
		if (known && known.version === turn.version) return known;
		const rows: Row[] = [];
		const seqs: number[] = [];
		let group: { items: string[]; seq: number; calls: number } | null = null;
		const close = () => {
			if (!group) return;
			const first = group.items[0];
			if (first !== undefined) {
				if (group.items.length === 1) rows.push({ key: first, type: 'item', item: first, turn: turn.id });
				else rows.push({ key: first, type: 'group', items: group.items, turn: turn.id });
				seqs.push(group.seq);
			}
			group = null;
		};
		for (const [at, entry] of turn.entries.entries()) {
			if (entry.kind === 'item') {
				const view = state.items.get(entry.item);
				if (!view || isHidden(state, turn, at, view)) continue;
				if (joins(view)) {
					group ??= { items: [], seq: entry.seq, calls: 0 };
					group.items.push(entry.item);
					continue;
				}
				close();
				rows.push({ key: entry.key, type: 'item', item: entry.item, turn: turn.id });
			} else {
				close();
				if (entry.kind === 'approval') rows.push({ key: entry.key, type: 'approval', approval: entry.approval });
				else if (entry.kind === 'finished') rows.push({ key: entry.key, type: 'end', turn: turn.id });
				else rows.push({ key: entry.key, type: 'note', entry });
			}
			seqs.push(entry.seq);
		}
		close();
		const made = { version: turn.version, rows, seqs };
		this.known.set(turn.id, made);
		return made;
	}
}

/** Whether an item can be told of in one line with those beside it. */
function joins({ item }: ItemView): boolean {
	if (item.kind === 'reasoning') return item.status === 'completed';
	if (item.kind !== 'tool_call') return false;
	return item.status === 'completed' && !item.output?.images?.length && item.tool !== 'ask';
}

/** A call that only asks for checks is told by their reports; an empty text by nothing. */
function isHidden(state: SessionState, turn: Turn, at: number, { item }: ItemView): boolean {
	// Of a text that a restart broke off the log may have nothing.
	if (item.kind === 'message' || item.kind === 'reasoning')
		return (item.status === 'completed' || item.status === 'interrupted') && item.text.trim() === '';
	if (item.kind !== 'tool_call' || item.tool !== 'check') return false;
	const next = turn.entries[at + 1];
	return next?.kind === 'item' && state.items.get(next.item)?.item.kind === 'report';
}
