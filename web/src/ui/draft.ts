// Text that somebody writes is kept until it is sent, whatever happens to the page.
import { useCallback, useMemo, useState } from 'react';

const PREFIX = 'slipway.draft.';
/** What a full or forbidden store of the browser did not take. It is kept on the page, at least. */
const onPage = new Map<string, string>();

export function draftNamed(name: string): string {
	const key = PREFIX + name;
	const here = onPage.get(key);
	if (here !== undefined) return here;
	try {
		return localStorage.getItem(key) ?? '';
	} catch {
		return '';
	}
}

export function keepDraft(name: string, text: string) {
	const key = PREFIX + name;
	try {
		if (text) localStorage.setItem(key, text);
		else localStorage.removeItem(key);
		onPage.delete(key);
	} catch {
		onPage.set(key, text);
	}
}

/** The ends of the names of all drafts that begin with this. */
export function draftsBelow(name: string): string[] {
	const start = PREFIX + name;
	const keys = new Set(onPage.keys());
	try {
		for (let at = 0; at < localStorage.length; at += 1) keys.add(localStorage.key(at) ?? '');
	} catch {
		// A browser that keeps nothing has nothing.
	}
	return [...keys].filter((key) => key.startsWith(start)).map((key) => key.slice(start.length));
}

export function useDraft(name: string): [string, (text: string) => void] {
	const [drafts, setDrafts] = useState<Record<string, string>>({});
	const text = drafts[name] ?? draftNamed(name);
	const set = useCallback(
		(value: string) => {
			setDrafts((known) => ({ ...known, [name]: value }));
			keepDraft(name, value);
		},
		[name],
	);
	return [text, set];
}

/** The same for what is more than a text; null where nothing was begun. */
export function useDraftOf<T>(name: string): [T | null, (value: T | null) => void] {
	const [text, setText] = useDraft(name);
	const value = useMemo(() => {
		try {
			return text ? (JSON.parse(text) as T) : null;
		} catch {
			return null;
		}
	}, [text]);
	const set = useCallback((next: T | null) => setText(next === null ? '' : JSON.stringify(next)), [setText]);
	return [value, set];
}
