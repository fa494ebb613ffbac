// Keeps memory bounded: of all texts of a session, outputs, what calls were given and what was said, only the newest are kept
// whole. Of older ones the beginning stays, and whoever opens one asks the log for the rest.
import type { Item } from '../api/types';
import { type Shortened, textsIn } from './shorten';
import type { SessionState } from './state';

/** Characters of texts that are kept. */
export const KEPT_IN_ALL = 16 * 1024 * 1024;
/** As much stays of a text, and of each that a call was given. */
const HEAD = 400;
const INPUT_HEAD = 120;

/** Made for one session; knows which items are kept whole, oldest first. */
export class Trim {
	private readonly whole: { id: string; size: number }[] = [];
	private from = 0;
	private total = 0;
	private readonly limit: number;

	constructor(limit = KEPT_IN_ALL) {
		this.limit = limit;
	}

	/** An item is complete. */
	add(state: SessionState, id: string) {
		const item = state.items.get(id)?.item;
		const size = item ? sizeOf(item) : 0;
		if (size <= HEAD) return;
		this.whole.push({ id, size });
		this.total += size;
		while (this.total > this.limit && this.from < this.whole.length - 1) {
			const oldest = this.whole[this.from];
			this.from += 1;
			if (!oldest) continue;
			this.total -= oldest.size;
			shorten(state, oldest.id);
		}
		// What was trimmed needs not be known any more.
		if (this.from > 4096) {
			this.whole.splice(0, this.from);
			this.from = 0;
		}
	}
}

function sizeOf(item: Item): number {
	switch (item.kind) {
		case 'tool_call': {
			let size = item.output?.text.length ?? 0;
			textsIn(item.input, (text) => {
				size += text.length;
				return text;
			});
			return size;
		}
		case 'report':
			return 0;
		default:
			return item.text.length;
	}
}

/** A slice of a long text would keep all of it; what goes through JSON is a text of its own. */
const headOf = (text: string, length: number) => JSON.parse(JSON.stringify(`${text.slice(0, length)}\u2026`)) as string;

function shorten(state: SessionState, id: string) {
	const view = state.items.get(id);
	if (!view) return;
	let left = (view.item as Shortened).left_out ?? 0;
	const cut = (text: string, length: number) => {
		if (text.length <= length) return text;
		left += text.length - length;
		return headOf(text, length);
	};
	const cutItem = (item: Item): Item => {
		if (item.kind === 'report') return item;
		if (item.kind !== 'tool_call') return { ...item, text: cut(item.text, HEAD) };
		const input = textsIn(item.input, (text) => cut(text, INPUT_HEAD));
		if (!item.output || item.output.text.length <= HEAD) return { ...item, input };
		const { output } = item;
		const known = (output as Shortened).left_out ?? 0;
		const out: Shortened = { left_out: known + output.text.length - HEAD };
		return { ...item, input, output: { ...output, ...out, text: headOf(output.text, HEAD) } };
	};
	const item: Item & Shortened = cutItem(view.item);
	if (left) item.left_out = left;
	state.items.set(id, { ...view, item });
}
