// A person's shell in the sandbox. It outlives the page for a minute, so that a reload has it again.
import { FitAddon } from '@xterm/addon-fit';
import { Terminal as Screen } from '@xterm/xterm';
import '@xterm/xterm/css/xterm.css';
import { useEffect, useRef, useState } from 'react';
import { live } from '../../live/link';
import { type SessionStore, useLink } from '../../live/store';
import { Button } from '../../ui/parts';

let next = 1;

/** The page allows no style elements that are put in while it runs; the sheets of the terminal are adopted instead. */
function withSheets<T>(make: () => T): T {
	const create = document.createElement.bind(document);
	document.createElement = ((name: string, options?: ElementCreationOptions) => {
		if (name !== 'style') return create(name, options);
		const stand = create('span');
		stand.hidden = true;
		const sheet = new CSSStyleSheet();
		document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
		Object.defineProperty(stand, 'textContent', {
			set: (css: string) => sheet.replaceSync(css),
			get: () => '',
		});
		const remove = stand.remove.bind(stand);
		stand.remove = () => {
			document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
			remove();
		};
		return stand;
	}) as typeof document.createElement;
	try {
		return make();
	} finally {
		document.createElement = create;
	}
}

export default function Terminal({ store }: { store: SessionStore }) {
	const box = useRef<HTMLDivElement>(null);
	const [ended, setEnded] = useState<string | null>(null);
	const [again, setAgain] = useState(0);
	const connected = useLink().state === 'open';
	// biome-ignore lint/correctness/useExhaustiveDependencies: a new connection or a wish for another shell opens one.
	useEffect(() => {
		const element = box.current;
		if (!element || !connected) return;
		setEnded(null);
		const number = next++;
		const style = getComputedStyle(document.documentElement);
		const colour = (name: string) => style.getPropertyValue(name).trim();
		const screen = new Screen({
			fontFamily: 'ui-monospace, "DejaVu Sans Mono", Menlo, monospace',
			fontSize: 12,
			lineHeight: 1.2,
			scrollback: 5000,
			theme: { background: colour('--sunken'), foreground: colour('--text'), cursor: colour('--accent') },
		});
		const fit = new FitAddon();
		screen.loadAddon(fit);
		withSheets(() => screen.open(element));
		fit.fit();
		const utf8 = new TextEncoder();
		const stops = [
			live.onTerminal(number, (bytes) => screen.write(bytes)),
			live.onSaid((message) => {
				if (message.data?.terminal !== number) return;
				if (message.type === 'terminal.opened')
					for (const notice of message.data.notices ?? []) screen.writeln(`\x1b[2m${notice}\x1b[0m`);
				if (message.type === 'terminal.closed') {
					setEnded(
						message.data.problem?.title ??
							`The shell ended${message.data.exit_code != null ? ` with ${message.data.exit_code}` : ''}`,
					);
				}
			}),
		];
		const typed = screen.onData((text) => live.sendBytes(number, utf8.encode(text)));
		const sized = screen.onResize(({ cols, rows }) =>
			live.say({ type: 'terminal.resize', terminal: number, columns: cols, rows }),
		);
		live.say({
			type: 'terminal.open',
			terminal: number,
			session: store.id,
			columns: screen.cols,
			rows: screen.rows,
			name: 'web',
		});
		const observer = new ResizeObserver(() => fit.fit());
		observer.observe(element);
		screen.focus();
		return () => {
			observer.disconnect();
			typed.dispose();
			sized.dispose();
			for (const stop of stops) stop();
			screen.dispose();
		};
	}, [store, again, connected]);
	return (
		<div className="flex min-h-0 flex-1 flex-col bg-sunken">
			{!connected && (
				<p className="px-4 py-2 text-sm text-needs">The server cannot be reached; the shell comes back with it.</p>
			)}
			{ended && (
				<p role="status" className="flex items-center gap-3 px-4 py-2 text-sm">
					{ended}
					<Button onClick={() => setAgain(again + 1)}>Open another</Button>
				</p>
			)}
			<div ref={box} className="min-h-0 flex-1 overflow-hidden p-2" />
		</div>
	);
}
