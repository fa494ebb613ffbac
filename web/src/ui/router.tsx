// Where in the app one is: the path and the query of the address, and nothing else.
import { type AnchorHTMLAttributes, type MouseEvent, useSyncExternalStore } from 'react';

const listeners = new Set<() => void>();
const tell = () => {
	for (const listener of listeners) listener();
};
window.addEventListener('popstate', tell);

export function go(to: string, how: 'push' | 'replace' = 'push') {
	if (to === location.pathname + location.search + location.hash) return;
	if (how === 'push') history.pushState(null, '', to);
	else history.replaceState(null, '', to);
	tell();
}

function subscribe(listener: () => void) {
	listeners.add(listener);
	return () => {
		listeners.delete(listener);
	};
}

export function usePath() {
	return useSyncExternalStore(subscribe, () => location.pathname);
}

export function useHash() {
	return useSyncExternalStore(subscribe, () => location.hash);
}

/** What is behind the question mark, and a way to change it that keeps the rest. */
export function useSearch(): [URLSearchParams, (change: Record<string, string | null>) => void] {
	const search = useSyncExternalStore(subscribe, () => location.search);
	const change = (values: Record<string, string | null>) => {
		const next = new URLSearchParams(location.search);
		for (const [name, value] of Object.entries(values)) {
			if (value) next.set(name, value);
			else next.delete(name);
		}
		const text = next.toString();
		go(location.pathname + (text ? `?${text}` : '') + location.hash, 'replace');
	};
	return [new URLSearchParams(search), change];
}

/** `/s/:id/:tab` against a path: its values, or null. A part that ends with `?` may be missing. */
export function match(pattern: string, path: string): Record<string, string> | null {
	const wanted = pattern.split('/').filter(Boolean);
	const parts = path.split('/').filter(Boolean);
	if (parts.length > wanted.length) return null;
	const values: Record<string, string> = {};
	for (const [at, want] of wanted.entries()) {
		const part = parts[at];
		const optional = want.endsWith('?');
		if (part === undefined) {
			if (optional) continue;
			return null;
		}
		if (want.startsWith(':')) {
			try {
				values[want.slice(1, optional ? -1 : undefined)] = decodeURIComponent(part);
			} catch {
				return null;
			}
		} else if (want !== part) return null;
	}
	return values;
}

type LinkProps = Omit<AnchorHTMLAttributes<HTMLAnchorElement>, 'href'> & { to: string; replace?: boolean };

/** A link within the app. It is a real one: it can be opened in another tab and copied. */
export function Link({ to, replace, onClick, ...rest }: LinkProps) {
	const follow = (event: MouseEvent<HTMLAnchorElement>) => {
		onClick?.(event);
		if (
			event.defaultPrevented ||
			event.button !== 0 ||
			event.metaKey ||
			event.ctrlKey ||
			event.shiftKey ||
			event.altKey
		)
			return;
		event.preventDefault();
		go(to, replace ? 'replace' : 'push');
	};
	return <a href={to} onClick={follow} {...rest} />;
}

export const paths = {
	sessions: () => '/',
	newSession: () => '/new',
	session: (id: string, tab?: string) => `/s/${id}${tab ? `/${tab}` : ''}`,
	/** A line in the changes. */
	line: (id: string, file: string, line?: number | null) =>
		`/s/${id}/changes?file=${encodeURIComponent(file)}${line ? `&line=${line}` : ''}`,
	/** A line of a file as it is now. */
	file: (id: string, file: string, line?: number | null) => {
		const path = file.includes('/') ? `path=${encodeURIComponent(file.slice(0, file.lastIndexOf('/')))}&` : '';
		return `/s/${id}/files?${path}file=${encodeURIComponent(file)}${line ? `&line=${line}` : ''}`;
	},
	environments: () => '/environments',
	environment: (name: string, tab?: string) => `/environments/${encodeURIComponent(name)}${tab ? `/${tab}` : ''}`,
	statistics: () => '/statistics',
	settings: (tab?: string) => `/settings${tab ? `/${tab}` : ''}`,
};
