// What a model wrote, as markup that can do no harm: no scripts, no styles, no images from elsewhere, and links that
// open on their own. Blocks that are finished are not read again while more comes.
import DOMPurify from 'dompurify';
import { Marked } from 'marked';
import { memo, useMemo } from 'react';
import { visible } from './hidden';

const escaped = (text: string) =>
	text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

const reader = new Marked({
	gfm: true,
	breaks: false,
	renderer: {
		// Markup that a model wrote is shown, and not taken for our own; pictures would be fetched from who knows where.
		html: ({ text }) => escaped(text),
		image: ({ text, href }) => escaped(text || href),
	},
});

const purifier = DOMPurify(window);
purifier.addHook('afterSanitizeAttributes', (node) => {
	// What scrolls must be reachable from the keyboard.
	if (node.tagName === 'PRE' || node.tagName === 'TABLE') node.setAttribute('tabindex', '0');
	if (node.tagName !== 'A') return;
	const href = node.getAttribute('href') ?? '';
	if (!/^(https?:|mailto:)/i.test(href)) {
		node.removeAttribute('href');
		return;
	}
	node.setAttribute('target', '_blank');
	node.setAttribute('rel', 'noopener noreferrer nofollow');
});

const allowed = {
	ALLOWED_TAGS: [
		'a',
		'b',
		'blockquote',
		'br',
		'code',
		'del',
		'em',
		'h1',
		'h2',
		'h3',
		'h4',
		'h5',
		'h6',
		'hr',
		'i',
		'li',
		'ol',
		'p',
		'pre',
		's',
		'strong',
		'sub',
		'sup',
		'table',
		'tbody',
		'td',
		'th',
		'thead',
		'tr',
		'ul',
	],
	ALLOWED_ATTR: ['href', 'start', 'align'],
	ALLOW_DATA_ATTR: false,
	ALLOW_ARIA_ATTR: false,
};

export function toHtml(markdown: string): string {
	return purifier.sanitize(reader.parse(markdown, { async: false }), allowed);
}

const Block = memo(function Block({ raw }: { raw: string }) {
	const html = useMemo(() => toHtml(raw), [raw]);
	return <div className="block" dangerouslySetInnerHTML={{ __html: html }} />;
});

/** Longer texts than this are shown as they are: reading them would hold up the page. */
const READABLE = 100_000;

export const Markdown = memo(function Markdown({ text }: { text: string }) {
	const blocks = useMemo(
		() => (text.length > READABLE ? null : reader.lexer(visible(text)).map((token) => token.raw)),
		[text],
	);
	if (!blocks) return <pre className="code whitespace-pre-wrap break-words">{visible(text)}</pre>;
	return <div className="prose">{blocks.map((raw, at) => (raw.trim() ? <Block key={at} raw={raw} /> : null))}</div>;
});
