// What a model wrote, as markup that can do no harm: no scripts, no styles, no images from elsewhere, and links that
// open on their own. It is read piece by piece: what is finished is not read again while more comes, and one piece that
// cannot be read is shown as it was written and takes nothing else with it.
import DOMPurify from 'dompurify';
import { Marked, type Tokens } from 'marked';
import { memo, useEffect, useMemo, useReducer, useRef } from 'react';
import { paths } from '../ui/router';
import { BoundedLexer, type Links } from './bounded';
import { visible } from './hidden';
import { definitions, pieces } from './pieces';
import { inTurn, later } from './turn';

const escaped = (text: string) =>
	text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

const reader = new Marked({
	gfm: true,
	breaks: false,
	renderer: {
		// Markup that a model wrote is shown, and not taken for our own; pictures would be fetched from who knows where.
		html: ({ text }) => escaped(text),
		image: ({ text, href }) => escaped(text || href),
		// A box that cannot be ticked is a sign.
		checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
	},
});

const purifier = DOMPurify(window);
purifier.addHook('afterSanitizeAttributes', (node) => {
	// What scrolls must be reachable from the keyboard.
	if (node.tagName === 'PRE' || node.tagName === 'TABLE') node.setAttribute('tabindex', '0');
	if (node.tagName !== 'A') return;
	const href = node.getAttribute('href') ?? '';
	if (!/^(https?:|mailto:|\/s\/[^/?]+\/files\?)/i.test(href)) {
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

/** More markup than this one piece does not become: what is short can stand for much. */
const MOST_MARKUP = 400_000;

/** Where the workspace is in a sandbox. */
const WORKSPACE = '/workspace/';

/** The file of the workspace that an address names, with its line: `src/a.js`, `src/a.js#L3`, `/workspace/src/a.js:3`. */
function fileOf(address: string): { path: string; line: number | null } | null {
	const found = /^(.*?)(?:#L(\d+)\S*|:(\d+)(?::\d+)?)?$/s.exec(address);
	let path = found?.[1] ?? '';
	try {
		path = decodeURIComponent(path);
	} catch {
		// It has a sign of its own there.
	}
	if (path.startsWith(WORKSPACE)) path = path.slice(WORKSPACE.length);
	while (path.startsWith('./')) path = path.slice(2);
	// Neither one with a scheme, nor a place of this page or of another server, nor what is outside of the workspace.
	if (path === '' || /^[/#?\\]|^[a-z][a-z0-9+.-]*:|(^|\/)\.\.(\/|$)/i.test(path)) return null;
	return { path, line: Number(found?.[2] ?? found?.[3] ?? 0) || null };
}

/** A piece as markup; null where it cannot be read in time, or cannot be read. In a session, addresses of files lead to them. */
export function toHtml(markdown: string, addresses: Record<string, string> = {}, session?: string): string | null {
	try {
		const links: Links = {};
		for (const [label, href] of Object.entries(addresses)) links[label] = { href, title: undefined };
		const tokens = new BoundedLexer(reader.defaults, links).lex(markdown);
		if (session)
			reader.walkTokens(tokens, (token) => {
				const file = token.type === 'link' ? fileOf(token.href) : null;
				if (file) (token as Tokens.Link).href = paths.file(session, file.path, file.line);
			});
		const html = reader.parser(tokens);
		return html.length > MOST_MARKUP ? null : purifier.sanitize(html, allowed);
	} catch {
		// It is shown as it was written, which is worth more than a page that is gone.
		return null;
	}
}

/** Markup of a piece, or what there is of it until the page has time: what it was a moment ago, or nothing yet. */
function useHtml(raw: string, links: string, session: string | undefined): string | null {
	const known = useRef<{ raw: string; links: string; html: string | null } | null>(null);
	const [, again] = useReducer((times: number) => times + 1, 0);
	const current = () => known.current?.raw === raw && known.current.links === links;
	if (!current()) {
		const html = inTurn(() => toHtml(raw, links ? (JSON.parse(links) as Record<string, string>) : {}, session));
		if (html !== undefined) known.current = { raw, links, html };
	}
	const late = !current();
	// biome-ignore lint/correctness/useExhaustiveDependencies: each text that is late waits anew.
	useEffect(() => (late ? later(again) : undefined), [late, raw, links]);
	return known.current?.html ?? null;
}

const Block = memo(function Block({
	raw,
	links,
	session,
}: {
	raw: string;
	links: string;
	session: string | undefined;
}) {
	const html = useHtml(raw, links, session);
	if (html === null) return <div className="block break-words whitespace-pre-wrap">{raw}</div>;
	return <div className="block" dangerouslySetInnerHTML={{ __html: html }} />;
});

const Code = memo(function Code({ text }: { text: string }) {
	return (
		<div className="block">
			{/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable from the keyboard. */}
			<pre tabIndex={0}>
				<code>{text}</code>
			</pre>
		</div>
	);
});

/** Longer texts than this are shown as they are: they are no messages that somebody reads. */
const READABLE = 100_000;
/** A piece that is longer is no paragraph, list or table that somebody reads, either. */
const LONGEST = 16_000;

/** `session`: whose files are meant by addresses without a server. */
export const Markdown = memo(function Markdown({ text, session }: { text: string; session?: string }) {
	const read = useMemo(() => {
		if (text.length > READABLE) return null;
		const shown = visible(text);
		const addresses = definitions(shown);
		return { all: pieces(shown), links: Object.keys(addresses).length ? JSON.stringify(addresses) : '' };
	}, [text]);
	if (!read) return <pre className="code whitespace-pre-wrap break-words">{visible(text)}</pre>;
	return (
		<div className="prose">
			{read.all.map(({ raw, code }, at) =>
				code ? (
					<Code key={at} text={raw} />
				) : raw.length > LONGEST ? (
					<div key={at} className="block break-words whitespace-pre-wrap">
						{raw}
					</div>
				) : (
					<Block key={at} raw={raw} links={raw.includes('[') ? read.links : ''} session={session} />
				),
			)}
		</div>
	);
});
