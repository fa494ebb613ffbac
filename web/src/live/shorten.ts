// Outputs are shortened before the page gets them: most are never opened, and handing all of them over is most of the work
// that a long session makes; so are the texts that calls were given. Whoever opens one gets all of it from the log.
import type { Frame } from './connection';

/** Texts up to this are left alone. */
export const WHOLE = 1_500;
const HEAD = 500;
const TAIL = 800;

/** What a shortened output, or an item with a shortened text or input, has beside what the server says. */
export interface Shortened {
	/** Characters that were left out here. */
	left_out?: number;
}

export function shortenedText(text: string): { text: string; left: number } {
	if (text.length <= WHOLE) return { text, left: 0 };
	const head = text.slice(0, text.lastIndexOf('\n', HEAD) + 1 || HEAD);
	const from = text.indexOf('\n', text.length - TAIL);
	const tail = text.slice(from < 0 ? text.length - TAIL : from + 1);
	return { text: `${head}\u2026\n${tail}`, left: text.length - head.length - tail.length };
}

/** What a call was given, with each text in it changed; the same object where none is another one. */
export function textsIn(input: unknown, change: (text: string) => string): unknown {
	if (typeof input === 'string') return change(input);
	if (!input || typeof input !== 'object') return input;
	let other = false;
	const entries = Object.entries(input).map(([name, value]) => {
		const next = textsIn(value, change);
		if (next !== value) other = true;
		return [name, next] as const;
	});
	if (!other) return input;
	return Array.isArray(input) ? entries.map(([, value]) => value) : Object.fromEntries(entries);
}

export function shortened(frame: Frame): Frame {
	const item = frame.data?.item;
	if (frame.type === 'item.completed' || frame.type === 'item.started') {
		const output = item?.output;
		if (typeof output?.text === 'string') {
			const { text, left } = shortenedText(output.text);
			if (left) {
				output.text = text;
				output.left_out = left;
			}
		}
		if (typeof item?.report?.tail === 'string') {
			const { text, left } = shortenedText(item.report.tail);
			if (left) {
				item.report.tail = text;
				item.report.left_out = left;
			}
		}
		if (item?.input !== undefined) {
			let out = 0;
			item.input = textsIn(item.input, (value) => {
				const { text, left } = shortenedText(value);
				out += left;
				return text;
			});
			if (out) item.left_out = out;
		}
	}
	if (frame.type === 'context.compacted' && typeof frame.data.text === 'string') {
		frame.data.text = shortenedText(frame.data.text).text;
	}
	if (frame.type === 'tools.listed') frame.data.tools = [];
	return frame;
}
