// Light, dark, or as the system is.
export type Theme = 'system' | 'light' | 'dark';
const KEY = 'slipway.theme';

export function theme(): Theme {
	const kept = localStorage.getItem(KEY);
	return kept === 'light' || kept === 'dark' ? kept : 'system';
}

export function setTheme(value: Theme) {
	if (value === 'system') {
		localStorage.removeItem(KEY);
		delete document.documentElement.dataset.theme;
	} else {
		localStorage.setItem(KEY, value);
		document.documentElement.dataset.theme = value;
	}
}

export function applyTheme() {
	setTheme(theme());
}
