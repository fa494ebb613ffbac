// A person's shell in the sandbox. It outlives the page for a minute, so that a reload has it again.
import { FitAddon } from '@xterm/addon-fit';
import { Terminal as Screen } from '@xterm/xterm';
import '@xterm/xterm/css/xterm.css';
import { useEffect, useRef, useState } from 'react';
import { live } from '../../live/link';
import { type SessionStore, useLink } from '../../live/store';
import { Button, Kbd } from '../../ui/parts';

let next = 1;

const READER = 'slipway.terminal.reader';
/** As long after Escape, Tab leaves the terminal. */
const LEAVE_MS = 2_000;
const WAY_OUT = 'terminal-way-out';
const reachable = 'a[href], button, input, select, textarea, [tabindex]:not([tabindex="-1"])';

/** To what comes after the terminal on the page, or before it. */
function leave(box: HTMLElement, back: boolean) {
	const all = [...document.querySelectorAll<HTMLElement>(reachable)].filter(
		(one) => !box.contains(one) && one.tabIndex >= 0 && one.checkVisibility({ visibilityProperty: true }),
	);
	const follows = (one: Element) => (box.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING) !== 0;
	const to = back ? all.findLast((one) => !follows(one)) : (all.find(follows) ?? all[0]);
	to?.focus();
}

/**
 * The shell takes every key, Tab and Escape too, so there are ways out that no program waits for: Tab right after Escape, back
 * with Shift, and Ctrl Shift Escape where the system leaves it to the page. The shell still gets the Escape.
 */
function waysOut(box: HTMLElement) {
	let escaped = Number.NEGATIVE_INFINITY;
	return (event: KeyboardEvent): boolean => {
		if (event.type !== 'keydown' || event.key === 'Shift') return true;
		const { key, shiftKey, ctrlKey, altKey, metaKey } = event;
		const plain = !ctrlKey && !altKey && !metaKey;
		const out = plain && key === 'Tab' && performance.now() - escaped < LEAVE_MS;
		escaped = plain && !shiftKey && key === 'Escape' ? performance.now() : Number.NEGATIVE_INFINITY;
		if (!out && !(ctrlKey && shiftKey && key === 'Escape')) return true;
		event.preventDefault();
		leave(box, out && shiftKey);
		return false;
	};
}

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
	const [reader, setReader] = useState(() => localStorage.getItem(READER) === 'on');
	const screens = useRef<Screen>(null);
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
			screenReaderMode: localStorage.getItem(READER) === 'on',
			theme: { background: colour('--sunken'), foreground: colour('--text'), cursor: colour('--accent') },
		});
		const fit = new FitAddon();
		screen.loadAddon(fit);
		withSheets(() => screen.open(element));
		fit.fit();
		screens.current = screen;
		screen.textarea?.setAttribute('aria-describedby', WAY_OUT);
		screen.attachCustomKeyEventHandler(waysOut(element));
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
			<div className="flex flex-wrap items-center gap-x-4 border-t border-line px-3 py-1 text-xs text-muted">
				<p id={WAY_OUT}>
					<Kbd>Esc</Kbd> and then <Kbd>Tab</Kbd> leaves the terminal.
				</p>
				<label className="target ml-auto flex items-center gap-1.5">
					<input
						type="checkbox"
						className="size-4 accent-(--accent)"
						checked={reader}
						onChange={({ target }) => {
							if (target.checked) localStorage.setItem(READER, 'on');
							else localStorage.removeItem(READER);
							setReader(target.checked);
							if (screens.current) screens.current.options.screenReaderMode = target.checked;
						}}
					/>
					Tell a screen reader what is printed
				</label>
			</div>
		</div>
	);
}
