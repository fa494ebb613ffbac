// Text that arrives in pieces. A piece stands for everything from its offset on, in bytes; only the end is kept of what
// is long, so that a command that prints for hours does not fill the browser.
import type { Channel } from '../api/types';
import type { LiveText } from './state';

export interface Delta {
	item: string;
	channel: Channel;
	offset: number;
	text: string;
}

/** Characters that are kept of one text at most; half of it goes when it is reached. */
export const KEPT = 256 * 1024;

const utf8 = new TextEncoder();

export function byteLength(text: string): number {
	let bytes = 0;
	for (let at = 0; at < text.length; at += 1) {
		const unit = text.charCodeAt(at);
		if (unit < 0x80) bytes += 1;
		else if (unit < 0x800) bytes += 2;
		else if (unit >= 0xd800 && unit < 0xdc00) {
			bytes += 4;
			at += 1;
		} else bytes += 3;
	}
	return bytes;
}

export function appended(live: LiveText | undefined, delta: Delta): LiveText {
	const piece = byteLength(delta.text);
	const known = live ?? { text: '', bytes: 0, dropped: 0, gap: false };
	if (delta.offset === known.bytes) return cut({ ...known, text: known.text + delta.text, bytes: known.bytes + piece });
	if (delta.offset > known.bytes) {
		// Something was missed; the item says it all when it is completed.
		return cut({ text: known.text + delta.text, bytes: delta.offset + piece, dropped: known.dropped, gap: true });
	}
	const kept = known.bytes - delta.offset;
	const bytes = utf8.encode(known.text);
	if (kept >= bytes.length) return { text: delta.text, bytes: delta.offset + piece, dropped: 0, gap: false };
	const before = new TextDecoder().decode(bytes.subarray(0, bytes.length - kept));
	return cut({ ...known, text: before + delta.text, bytes: delta.offset + piece });
}

function cut(live: LiveText): LiveText {
	if (live.text.length <= KEPT) return live;
	const from = live.text.indexOf('\n', live.text.length - KEPT / 2);
	const at = from < 0 ? live.text.length - KEPT / 2 : from + 1;
	return { ...live, text: live.text.slice(at), dropped: live.dropped + at };
}
