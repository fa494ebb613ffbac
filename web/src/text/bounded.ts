// Reading markdown with an end to it. Some texts of a few kilobytes take a parser seconds, or more depth than it has: a model
// writes such a text by mistake, somebody else on purpose. Here every reading has so much depth and so much work; what goes
// beyond stays as it was written, and what is around it is markup as ever.
import { Lexer, type MarkedOptions, type Token, Tokenizer } from 'marked';

/** As many blocks or marks may be in each other. */
const DEEPEST = 24;
/** Work of one reading: for lines each character as often as there are signs in them that may be markup. */
const MOST_WORK = 2_000_000;
/** The work of a character of blocks: several are tried on it, and some are read again with what follows them. */
const BLOCK = 8;
/** Cells of one table: rows are filled up to the width of the first one. */
const MOST_CELLS = 5_000;

/** What an inline reading begins anew at, and looks from there to the end for what may close it. */
const signs = /[*_~`[\]<!\\|@&]|:\/\/|www\./g;

const written = (text: string): Token => ({ type: 'text', raw: text, text, escaped: false });

class BoundedTokenizer extends Tokenizer {
	override table(src: string) {
		const found = this.rules.block.table.exec(src);
		if (!found) return undefined;
		const wide = found[1]?.split('|').length ?? 0;
		const high = found[3]?.split('\n').length ?? 0;
		return wide * high > MOST_CELLS ? undefined : super.table(src);
	}
}

export interface Links {
	[label: string]: { href: string; title: string | undefined };
}

export class BoundedLexer extends Lexer {
	private depth = 0;
	private left = MOST_WORK;

	constructor(options: MarkedOptions, links: Links) {
		super({ ...options, tokenizer: new BoundedTokenizer() });
		Object.assign(this.tokens.links, links);
	}

	override blockTokens(src: string, tokens: Token[] = [], clipped?: boolean): never {
		if (this.takes(src.length * BLOCK)) {
			this.depth += 1;
			try {
				return super.blockTokens(src, tokens as never, clipped) as never;
			} finally {
				this.depth -= 1;
			}
		}
		tokens.push({ type: 'paragraph', raw: src, text: src, tokens: [written(src)] });
		return tokens as never;
	}

	override inlineTokens(src: string, tokens: Token[] = []): Token[] {
		if (this.takes(src.length * (1 + (src.match(signs)?.length ?? 0)))) {
			this.depth += 1;
			try {
				return super.inlineTokens(src, tokens);
			} finally {
				this.depth -= 1;
			}
		}
		tokens.push(written(src));
		return tokens;
	}

	/** Whether there is depth and work left for this much. */
	private takes(work: number): boolean {
		if (this.depth >= DEEPEST || work > this.left) return false;
		this.left -= work;
		return true;
	}
}
