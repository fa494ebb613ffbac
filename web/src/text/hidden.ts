// Characters that nobody sees: some turn the order of what follows, so that a name or a line of code looks like another one,
// some have no width, and some carry words that only a model reads. They are shown by their numbers.

// Directions (061C, 200E, 200F, 202A-202E, 2066-2069), no width (00AD, 180E, 200B, 2060-2064, FEFF, FFF9-FFFB) and tags.
// Joiners (200C, 200D) stay: emoji and several scripts are written with them.
const hidden =
	/[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;

const shown = (found: string) =>
	`\u27e8U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}\u27e9`;

/** Whether a text has such characters. */
export function hides(text: string): boolean {
	hidden.lastIndex = 0;
	return hidden.test(text);
}

/** The text with them shown. What is sent anywhere stays as it is. */
export function visible(text: string): string {
	return text.replace(hidden, shown);
}
