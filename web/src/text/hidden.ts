// Characters that nobody sees: some turn the order of what follows, so that a name or a line of code looks like another one,
// some have no width or break a line, and some carry words that only a model reads. They are shown by their numbers.

// All that Unicode says may be left out when it is drawn, which has directions, tags, fillers and signs that choose a form;
// control characters, of which lines and tabs stay; separators of lines that editors do not take for such; and notes of music
// and of lines that have no form.
const candidates =
	/\p{Default_Ignorable_Code_Point}|[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u180e\u2028\u2029\ufff9-\ufffb]|\u{1d159}|\r(?!\n|$)/gu;

/** Emoji and signs that have a form as text and one as a picture, which the next character chooses between. */
const pictured = /\p{Extended_Pictographic}$/u;
/** Scripts whose letters are joined, or kept apart, by a character without width; and parts of emoji. */
const joined =
	/(?:[\p{Script=Arabic}\p{Script=Syriac}\p{Script=Mongolian}\p{Script=Nko}\p{Script=Mandaic}\p{Extended_Pictographic}\p{Emoji_Modifier}]|\ufe0f|\p{Mc}|\p{Mn})$/u;

/** Whether one that was found stands where people write it, and so changes how what they see is drawn. */
function written(found: string, at: number, text: string): boolean {
	const before = text.slice(Math.max(0, at - 2), at);
	switch (found) {
		case '\u200c':
		case '\u200d':
			return joined.test(before);
		case '\ufe0e':
		case '\ufe0f':
			return pictured.test(before) || (/[#*0-9]$/.test(before) && text[at + 1] === '\u20e3');
		default:
			return false;
	}
}

const shown = (found: string) =>
	`\u27e8U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}\u27e9`;

/** Whether a text has such characters. */
export function hides(text: string): boolean {
	for (const found of text.matchAll(candidates)) if (!written(found[0], found.index, text)) return true;
	return false;
}

/** The text with them shown. What is sent anywhere stays as it is. */
export function visible(text: string): string {
	return text.replace(candidates, (found: string, at: number) => (written(found, at, text) ? found : shown(found)));
}

/** The same of a name, in which also the end of a line and a tab are no part of the look. */
export function visibleName(name: string): string {
	return visible(name.replace(/[\n\r\t]/g, shown));
}
