// Text that somebody writes is kept until it is sent, whatever happens to the page.
import { useCallback, useState } from 'react';

export function useDraft(name: string): [string, (text: string) => void] {
	const key = `slipway.draft.${name}`;
	const [drafts, setDrafts] = useState<Record<string, string>>({});
	const text = drafts[key] ?? localStorage.getItem(key) ?? '';
	const set = useCallback(
		(value: string) => {
			setDrafts((known) => ({ ...known, [key]: value }));
			try {
				if (value) localStorage.setItem(key, value);
				else localStorage.removeItem(key);
			} catch {
				// It is kept on the page, at least.
			}
		},
		[key],
	);
	return [text, set];
}
