// Numbers and times as people read them. All figures are tabular where they are shown.

export function money(usd: number): string {
	if (usd === 0) return '$0';
	if (usd < 0.01) return '<$0.01';
	if (usd < 100) return `$${usd.toFixed(2)}`;
	return `$${Math.round(usd).toLocaleString('en-GB')}`;
}

export function count(value: number): string {
	if (value < 1_000) return String(value);
	if (value < 10_000) return `${(value / 1_000).toFixed(1)}k`;
	if (value < 1_000_000) return `${Math.round(value / 1_000)}k`;
	return `${(value / 1_000_000).toFixed(1)}M`;
}

export function bytes(value: number): string {
	if (value < 1024) return `${value} B`;
	if (value < 1024 * 1024) return `${(value / 1024).toFixed(value < 10240 ? 1 : 0)} KB`;
	return `${(value / 1024 / 1024).toFixed(1)} MB`;
}

/** A length of time: `8 s`, `2 m 14 s`, `3 h 5 m`, `2 d`. */
export function duration(ms: number): string {
	const seconds = Math.max(0, Math.floor(ms / 1000));
	if (ms < 1000) return ms < 100 ? '0 s' : `${(ms / 1000).toFixed(1)} s`;
	if (seconds < 60) return `${seconds} s`;
	const minutes = Math.floor(seconds / 60);
	if (minutes < 60) return seconds % 60 ? `${minutes} m ${seconds % 60} s` : `${minutes} m`;
	const hours = Math.floor(minutes / 60);
	if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} m` : `${hours} h`;
	return `${Math.floor(hours / 24)} d`;
}

/** The same as lists have it, where seconds that count up would be nothing but unrest: `8 s`, `2 m`, `3 h`. */
export function shortDuration(ms: number): string {
	return duration(ms).split(' ', 2).join(' ');
}

/** Since when, in one word: `now`, `5 m`, `3 h`, `2 d`. */
export function ago(at: string, now: number): string {
	const seconds = Math.max(0, (now - Date.parse(at)) / 1000);
	if (seconds < 45) return 'now';
	if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} m`;
	if (seconds < 86_400) return `${Math.round(seconds / 3600)} h`;
	return `${Math.round(seconds / 86_400)} d`;
}

/** The same in a sentence: `just now`, `5 m ago`. */
export function agoWords(at: string, now: number): string {
	const word = ago(at, now);
	return word === 'now' ? 'just now' : `${word} ago`;
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const whole = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

export function time(at: string): string {
	const date = new Date(at);
	const today = new Date();
	const same = date.toDateString() === today.toDateString();
	return same ? clock.format(date) : `${day.format(date)} ${clock.format(date)}`;
}

export function fullTime(at: string): string {
	return whole.format(new Date(at));
}

export function plural(number: number, one: string, many = `${one}s`): string {
	return `${number.toLocaleString('en-GB')} ${number === 1 ? one : many}`;
}
