// A line at the bottom that says what was done or what failed, and goes by itself.
import { useSyncExternalStore } from 'react';
import { inWords } from '../api/client';
import { visible } from '../text/hidden';
import { Icon } from './icons';
import { IconButton } from './parts';

interface Toast {
	id: number;
	text: string;
	hint?: string;
	bad: boolean;
	act?: { label: string; run: () => void };
}

let toasts: Toast[] = [];
let next = 1;
const listeners = new Set<() => void>();
const tell = () => {
	for (const listener of listeners) listener();
};

function drop(id: number) {
	toasts = toasts.filter((toast) => toast.id !== id);
	tell();
}

export function say(text: string, act?: Toast['act']) {
	show({ text, bad: false, ...(act ? { act } : {}) });
}

/** A command failed: what happened, and what to do. */
export function complain(error: unknown) {
	const { title, hint } = inWords(error);
	show({ text: title, bad: true, ...(hint ? { hint } : {}) });
}

function show(toast: Omit<Toast, 'id'>) {
	const id = next++;
	toasts = [...toasts.slice(-2), { ...toast, id }];
	tell();
	setTimeout(() => drop(id), toast.bad ? 10_000 : 5_000);
}

export function Toasts() {
	const shown = useSyncExternalStore(
		(listener) => {
			listeners.add(listener);
			return () => {
				listeners.delete(listener);
			};
		},
		() => toasts,
	);
	return (
		<div
			role="status"
			className="pointer-events-none fixed inset-x-0 bottom-4 z-40 flex flex-col items-center gap-2 px-4 max-md:bottom-24"
		>
			{shown.map((toast) => (
				<div
					key={toast.id}
					className="appear pointer-events-auto flex max-w-lg items-start gap-2 rounded-md border border-line bg-surface py-1.5 pr-1.5 pl-3 text-sm shadow-overlay"
				>
					<Icon name={toast.bad ? 'warning' : 'check'} className={`mt-2 ${toast.bad ? 'text-bad' : 'text-good'}`} />
					<div className="min-w-0 py-1.5">
						<p className="break-words">{visible(toast.text)}</p>
						{toast.hint && <p className="break-words text-muted">{visible(toast.hint)}</p>}
					</div>
					{toast.act && (
						<button type="button" className="target px-2 py-1.5 font-medium text-accent" onClick={toast.act.run}>
							{toast.act.label}
						</button>
					)}
					<IconButton icon="cross" label="Close" size={12} onClick={() => drop(toast.id)} />
				</div>
			))}
		</div>
	);
}
