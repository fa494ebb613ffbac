// A long text in pieces that can be read each by itself, found in linear time by looking at lines only. While a message is
// being written only its last piece is another one from moment to moment, so only that one is read again.

export interface Piece {
	raw: string;
	/** Whether it is code between fences, `raw` being what is between them. */
	code: boolean;
}

const fence = /^([ \t]*)(`{3,}(?=[^`]*$)|~{3,})/;
const item = /^ {0,3}(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)/;

/** A list that is longer goes on in another piece. */
const LONG_LIST = 6_000;

export function pieces(text: string): Piece[] {
	const found: Piece[] = [];
	const lines = text.split(/\r?\n/);
	let from = 0;
	/** What ends the fence that is open, and whether it stands alone. */
	let open: { sign: string; alone: boolean } | null = null;
	let list = false;
	let blank = false;
	let size = 0;
	const cut = (to: number) => {
		if (to > from) {
			const raw = lines.slice(from, to).join('\n');
			if (raw.trim()) found.push({ raw, code: false });
		}
		from = to;
		list = false;
	};
	for (const [at, line] of lines.entries()) {
		if (open) {
			const end = line.trim();
			if (end.length < open.sign.length || end !== end.replace(/[^`~]/g, '') || !end.startsWith(open.sign)) continue;
			if (open.alone) {
				found.push({ raw: lines.slice(from + 1, at).join('\n'), code: true });
				from = at + 1;
				list = false;
			}
			open = null;
			blank = false;
			continue;
		}
		if (line.trim() === '') {
			blank = true;
			continue;
		}
		const begins = fence.exec(line);
		const alone = begins?.[1] === '';
		// What is indented belongs to what is before it, and so does one more item of a list.
		const more = list && item.test(line);
		if (alone || (blank && !/^(?: {2}|\t)/.test(line) && !more)) cut(at);
		else if (more && /^\S/.test(line) && size > LONG_LIST) cut(at);
		if (at === from) {
			list = item.test(line);
			size = 0;
		}
		size += line.length;
		if (begins?.[2]) open = { sign: begins[2], alone };
		blank = false;
	}
	if (open?.alone) found.push({ raw: lines.slice(from + 1).join('\n'), code: true });
	else cut(lines.length);
	return found;
}

/** Definitions of addresses that are counted; more of them nobody writes. */
const MOST = 100;
const definition =
	/^ {0,3}\[([^[\]\\\n]{1,200})\]:[ \t]*<?((?:https?:|mailto:)[^\s<>]{1,1000})>?(?:[ \t]+["'(].{0,200})?[ \t]*$/gim;

/** The addresses that a text gives names to, for all of its pieces: `[docs]: https://…`. The first one of a name counts. */
export function definitions(text: string): Record<string, string> {
	const all: Record<string, string> = {};
	let left = MOST;
	if (!text.includes(']:')) return all;
	for (const [, label = '', address = ''] of text.matchAll(definition)) {
		const name = label.trim().toLowerCase().replace(/\s+/g, ' ');
		if (!Object.hasOwn(all, name)) all[name] = address;
		left -= 1;
		if (left === 0) break;
	}
	return all;
}
