// The output of programs as text with colours. Only colours and weights are taken from it; everything else that a
// terminal would act on (titles, links, movements) is left out.

export interface Span {
	text: string;
	/** Classes, none for plain text. */
	look: string;
}

const colours = ['', 'text-bad', 'text-good', 'text-needs', 'text-working', 'text-accent', 'text-accent', ''];

// CSI, then OSC and the like up to their end, then single escapes and control characters.
const codes =
	/\x1b\[([0-9;:?<>= ]*)([@-~])|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g;

export function plain(text: string): string {
	return overwrite(text.replace(codes, ''));
}

/** A line that was written over with a carriage return shows what was written last. */
function overwrite(text: string): string {
	if (!text.includes('\r')) return text;
	return text
		.replace(/\r+\n/g, '\n')
		.split('\n')
		.map((line) => line.slice(line.lastIndexOf('\r', line.length - 2) + 1).replace(/\r/g, ''))
		.join('\n');
}

export function spans(text: string): Span[] {
	const found: Span[] = [];
	let colour = 0;
	let bold = false;
	let dim = false;
	let from = 0;
	const source = overwrite(text);
	const push = (piece: string) => {
		if (!piece) return;
		const look = [colours[colour] ?? '', bold ? 'font-semibold' : '', dim ? 'opacity-70' : '']
			.filter(Boolean)
			.join(' ');
		const last = found.at(-1);
		if (last && last.look === look) last.text += piece;
		else found.push({ text: piece, look });
	};
	codes.lastIndex = 0;
	for (let match = codes.exec(source); match; match = codes.exec(source)) {
		push(source.slice(from, match.index));
		from = match.index + match[0].length;
		if (match[2] !== 'm') continue;
		const numbers = (match[1] ?? '').split(/[;:]/).map(Number);
		for (let at = 0; at < numbers.length; at += 1) {
			const number = numbers[at] ?? 0;
			if (number === 0) {
				colour = 0;
				bold = false;
				dim = false;
			} else if (number === 1) bold = true;
			else if (number === 2) dim = true;
			else if (number === 22) {
				bold = false;
				dim = false;
			} else if (number >= 30 && number <= 37) colour = number - 30;
			else if (number >= 90 && number <= 97) colour = number - 90;
			else if (number === 39) colour = 0;
			else if (number === 38 || number === 48) at += numbers[at + 1] === 2 ? 4 : 2;
		}
	}
	push(source.slice(from));
	return found;
}
