// Keeps memory bounded: of all outputs of a session only the newest are kept whole. Of older ones the beginning stays, and
// whoever opens one asks the log for the rest.
import type { Shortened } from './shorten';
import type { SessionState } from './state';

/** Characters of outputs that are kept. */
export const KEPT_IN_ALL = 16 * 1024 * 1024;
const HEAD = 400;

/** Made for one session; knows which outputs are kept whole, oldest first. */
export class Trim {
	private readonly whole: { id: string; size: number }[] = [];
	private from = 0;
	private total = 0;
	private readonly limit: number;

	constructor(limit = KEPT_IN_ALL) {
		this.limit = limit;
	}

	/** An item has its output. */
	add(state: SessionState, id: string) {
		const item = state.items.get(id)?.item;
		if (item?.kind !== 'tool_call') return;
		const size = item.output?.text.length ?? 0;
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

function shorten(state: SessionState, id: string) {
	const view = state.items.get(id);
	if (view?.item.kind !== 'tool_call' || !view.item.output) return;
	const { output } = view.item;
	const known = (output as Shortened).left_out ?? 0;
	const left: Shortened = { left_out: known + output.text.length - HEAD };
	// A slice of a long text would keep all of it; what goes through JSON is a text of its own.
	const text = JSON.parse(JSON.stringify(`${output.text.slice(0, HEAD)}\u2026`)) as string;
	state.items.set(id, { ...view, item: { ...view.item, output: { ...output, ...left, text } } });
}
