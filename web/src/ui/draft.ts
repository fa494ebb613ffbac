// Text that somebody writes is kept until it is sent, whatever happens to the page. Two tabs may write at the same place: each
// keeps its own text for itself, over a reload, and the browser the last one of all for a tab that is opened later.
import { useCallback, useMemo, useState } from 'react';

const PREFIX = 'slipway.draft.';
/** What a full or forbidden store of the browser did not take. It is kept on the page, at least. */
const onPage = new Map<string, string>();

/** What this tab wrote itself; an empty text where it sent what it had, and null where it wrote nothing yet. */
function own(key: string): string | null {
	try {
		return sessionStorage.getItem(key);
	} catch {
		return null;
	}
}

export function draftNamed(name: string): string {
	const key = PREFIX + name;
	const here = onPage.get(key) ?? own(key);
	if (here !== null) return here;
	try {
		return localStorage.getItem(key) ?? '';
	} catch {
		return '';
	}
}

export function keepDraft(name: string, text: string) {
	const key = PREFIX + name;
	try {
		const before = own(key);
		const kept = localStorage.getItem(key);
		if (!text && before === null && kept === null && !onPage.has(key)) return;
		sessionStorage.setItem(key, text);
		if (text) localStorage.setItem(key, text);
		// What is there may be what another tab wrote, which is not sent yet.
		else if (before === null || kept === before) localStorage.removeItem(key);
		onPage.delete(key);
	} catch {
		onPage.set(key, text);
	}
}

/** Another tab sent what it had: what this one has takes its place. */
function changedElsewhere({ key, newValue, oldValue }: StorageEvent) {
	if (!key?.startsWith(PREFIX) || newValue !== null) return;
	const here = own(key);
	if (!here || here === oldValue) return;
	try {
		localStorage.setItem(key, here);
	} catch {
		// It is kept for this tab, at least.
	}
}

if (typeof window !== 'undefined') window.addEventListener('storage', changedElsewhere);

/** The ends of the names of all drafts that begin with this. */
export function draftsBelow(name: string): string[] {
	const start = PREFIX + name;
	const keys = new Set(onPage.keys());
	try {
		for (let at = 0; at < localStorage.length; at += 1) keys.add(localStorage.key(at) ?? '');
	} catch {
		// A browser that keeps nothing has nothing.
	}
	return [...keys]
		.filter((key) => key.startsWith(start))
		.map((key) => key.slice(start.length))
		.filter((rest) => draftNamed(name + rest) !== '');
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
