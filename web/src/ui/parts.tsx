// Small parts that every page uses.
import { type ButtonHTMLAttributes, type ReactNode, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { inWords } from '../api/client';
import { visible } from '../text/hidden';
import { duration } from './format';
import { Icon, type IconName } from './icons';
import { useNowText } from './now';
import { Link } from './router';

const kinds = {
	primary: 'bg-accent text-accent-text border-accent hover:opacity-90',
	plain: 'bg-surface text-text border-line-strong hover:bg-sunken',
	quiet: 'bg-transparent text-text border-transparent hover:bg-sunken',
	good: 'bg-good text-background border-good hover:opacity-90',
	danger: 'bg-surface text-bad border-line-strong hover:bg-bad-soft',
} as const;

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
	kind?: keyof typeof kinds;
	icon?: IconName;
	busy?: boolean;
};

export function Button({ kind = 'plain', icon, busy, className = '', children, disabled, ...rest }: ButtonProps) {
	return (
		<button
			type="button"
			disabled={disabled || busy}
			aria-busy={busy || undefined}
			className={`target inline-flex h-8 items-center justify-center gap-1.5 rounded-md border px-3 text-sm font-medium whitespace-nowrap disabled:opacity-50 ${kinds[kind]} ${className}`}
			{...rest}
		>
			{icon && <Icon name={icon} size={14} />}
			{children}
		</button>
	);
}

type IconButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { icon: IconName; label: string; size?: number };

export function IconButton({ icon, label, size = 16, className = '', ...rest }: IconButtonProps) {
	return (
		<button
			type="button"
			aria-label={label}
			title={label}
			className={`target inline-flex size-8 shrink-0 items-center justify-center rounded-md text-muted hover:bg-sunken hover:text-text disabled:opacity-40 ${className}`}
			{...rest}
		>
			<Icon name={icon} size={size} />
		</button>
	);
}

export function Kbd({ children }: { children: ReactNode }) {
	return (
		<kbd className="rounded-sm border border-line bg-sunken px-1 py-px text-xs text-muted whitespace-nowrap">
			{children}
		</kbd>
	);
}

/** What went wrong and what to do, in place of what could not be shown. */
export function Failure({ error, again, className = '' }: { error: unknown; again?: () => void; className?: string }) {
	const { title, hint } = inWords(error);
	return (
		<div
			role="alert"
			className={`flex items-start gap-2 rounded-md border border-line bg-bad-soft px-3 py-2 text-sm ${className}`}
		>
			<Icon name="warning" className="mt-0.5 text-bad" />
			<div className="min-w-0 flex-1">
				<p className="font-medium break-words">{visible(title)}</p>
				{hint && <p className="text-muted break-words">{visible(hint)}</p>}
			</div>
			{again && (
				<Button kind="quiet" onClick={again}>
					Try again
				</Button>
			)}
		</div>
	);
}

/** Says what one waits for; a page never only spins. */
export function Waiting({ children }: { children: ReactNode }) {
	const [since] = useState(() => Date.now());
	// How long is told when it is longer than one would think.
	const long = useNowText((now) => (now - since < LONG_MS ? '' : `, for ${duration(now - since)} so far`));
	return (
		<p role="status" className="flex items-center gap-2 px-4 py-6 text-sm text-muted">
			<span aria-hidden="true" className="pulse size-2 rounded-full bg-working" />
			<span>
				{children}
				<span className="tabular" aria-hidden="true">
					{long}
				</span>
			</span>
		</p>
	);
}

const LONG_MS = 4_000;

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
	return (
		<div className="mx-auto flex max-w-md flex-col items-center gap-2 px-6 py-16 text-center">
			<h2 className="text-base font-semibold">{title}</h2>
			<div className="text-sm text-muted">{children}</div>
		</div>
	);
}

/** A dialogue over the page. The browser keeps the focus inside and closes it with Escape. */
export function Dialog({
	open,
	onClose,
	label,
	children,
	className = 'w-[min(560px,calc(100vw-24px))]',
	top = false,
	side,
}: {
	open: boolean;
	onClose: () => void;
	label: string;
	children: ReactNode;
	className?: string;
	top?: boolean;
	/** A sheet that comes from a side, as high as the page. */
	side?: 'left' | 'right';
}) {
	const dialog = useRef<HTMLDialogElement>(null);
	useEffect(() => {
		const element = dialog.current;
		if (!element) return;
		if (open && !element.open) {
			element.showModal();
			// What asks for the focus by itself does so while the dialogue is still closed, and does not get it.
			element.querySelector<HTMLElement>('[data-autofocus]')?.focus();
		}
		if (!open && element.open) element.close();
	}, [open]);
	// One that goes without being closed would keep the focus from where it was before.
	useLayoutEffect(() => {
		const element = dialog.current;
		return () => element?.close();
	}, []);
	const place = side
		? `h-dvh max-h-none w-[min(320px,88vw)] max-w-none border-0 bg-background m-0 ${side === 'right' ? 'ml-auto' : ''}`
		: `m-auto max-h-[calc(100dvh-24px)] rounded-lg border border-line bg-surface ${top ? 'mt-[12vh]' : ''} ${className}`;
	return (
		<dialog
			ref={dialog}
			aria-label={label}
			onClose={() => {
				// One that was opened again meanwhile is not closed.
				if (!dialog.current?.open) onClose();
			}}
			onClick={(event) => {
				if (event.target === dialog.current) onClose();
			}}
			onKeyDown={(event) => event.stopPropagation()}
			className={`overflow-auto p-0 shadow-overlay ${place}`}
		>
			{open && children}
		</dialog>
	);
}

/** A choice of a few. */
export function Segments<T extends string>({
	label,
	value,
	options,
	onChange,
}: {
	label: string;
	value: T;
	options: { value: T; label: string }[];
	onChange: (value: T) => void;
}) {
	return (
		<div
			role="radiogroup"
			aria-label={label}
			className="inline-flex rounded-md border border-line bg-sunken p-0.5"
			onKeyDown={(event) => {
				const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
				if (!by) return;
				event.preventDefault();
				const at = options.findIndex((option) => option.value === value);
				const next = options[(at + by + options.length) % options.length];
				if (!next) return;
				onChange(next.value);
				event.currentTarget.querySelectorAll<HTMLElement>('[role=radio]')[options.indexOf(next)]?.focus();
			}}
		>
			{options.map((option) => (
				<button
					key={option.value}
					type="button"
					role="radio"
					aria-checked={option.value === value}
					// One stop for all of them; the arrows choose.
					tabIndex={option.value === value ? 0 : -1}
					onClick={() => onChange(option.value)}
					className={`target h-6 rounded-sm px-2 text-xs font-medium ${option.value === value ? 'bg-surface text-text shadow-sm' : 'text-muted'}`}
				>
					{option.label}
				</button>
			))}
		</div>
	);
}

/** The parts of a page, each with an address of its own. */
export function Tabs({
	label,
	current,
	tabs,
}: {
	label: string;
	current: string;
	tabs: { key: string; label: ReactNode; to: string }[];
}) {
	const bar = useRef<HTMLElement>(null);
	// On a phone there may be more than fit: the one that is open is in view, also when what the others say becomes longer.
	// biome-ignore lint/correctness/useExhaustiveDependencies: another tab is in another place.
	useEffect(() => {
		const element = bar.current;
		if (!element) return;
		const show = () => {
			const here = element.querySelector<HTMLElement>('[aria-current]');
			if (here) element.scrollLeft = here.offsetLeft - (element.clientWidth - here.clientWidth) / 2;
		};
		show();
		const observer = new ResizeObserver(show);
		for (const tab of [element, ...element.children]) observer.observe(tab);
		return () => observer.disconnect();
	}, [current]);
	return (
		<nav ref={bar} aria-label={label} className="relative flex gap-4 overflow-x-auto px-4">
			{tabs.map((tab) => (
				<Link
					key={tab.key}
					to={tab.to}
					aria-current={tab.key === current ? 'page' : undefined}
					className={`target flex h-8 shrink-0 items-center border-b-2 text-sm whitespace-nowrap ${tab.key === current ? 'border-accent font-medium' : 'border-transparent text-muted hover:text-text'}`}
				>
					{tab.label}
				</Link>
			))}
		</nav>
	);
}

/** How much of something is used. */
export function Meter({ label, value, limit }: { label: string; value: number; limit: number }) {
	const share = limit > 0 ? Math.min(1, value / limit) : 0;
	const colour = share >= 1 ? 'bg-bad' : share >= 0.8 ? 'bg-needs' : 'bg-accent';
	return (
		<div
			role="meter"
			aria-label={label}
			aria-valuemin={0}
			aria-valuemax={limit}
			aria-valuenow={Math.min(value, limit)}
			className="h-1 overflow-hidden rounded-full bg-line"
		>
			<div
				className={`h-full rounded-full ${colour}`}
				style={{ width: `${Math.max(share * 100, value > 0 ? 2 : 0)}%` }}
			/>
		</div>
	);
}
