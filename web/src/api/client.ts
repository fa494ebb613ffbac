// Commands and questions over HTTP. Every failure is a problem with a sentence and, where there is one, what to do.
import { visible } from '../text/hidden';
import type { Problem } from './types';

const TOKEN = 'slipway.token';

/** The token of this browser, where the server demands one. */
export function token(): string | null {
	return localStorage.getItem(TOKEN);
}

export function keepToken(value: string | null) {
	if (value) localStorage.setItem(TOKEN, value);
	else localStorage.removeItem(TOKEN);
}

/** A link that somebody was sent has its token behind the `#`, which no server sees; it does not stay in the address. */
export function takeTokenFromAddress() {
	const match = /^#token=([\x21-\x7e]+)$/.exec(location.hash);
	if (!match?.[1]) return;
	keepToken(decoded(match[1]));
	history.replaceState(null, '', location.pathname + location.search);
}

/** What an address has behind escapes; where they are none, as it stands. */
function decoded(text: string): string {
	try {
		return decodeURIComponent(text);
	} catch {
		return text;
	}
}

export class ApiError extends Error {
	readonly problem: Problem;
	constructor(problem: Problem) {
		super(problem.title);
		this.problem = problem;
	}
	get status() {
		return this.problem.status;
	}
}

/** What went wrong, for people. */
export function inWords(error: unknown): { title: string; hint?: string } {
	if (error instanceof ApiError) {
		const { title, hint } = error.problem;
		return { title: visible(title), hint: hint ? visible(hint) : undefined };
	}
	if (error instanceof Error) return { title: visible(error.message) };
	return { title: 'Something went wrong that has no name' };
}

export function isMissing(error: unknown) {
	return error instanceof ApiError && (error.status === 404 || error.status === 405);
}

interface Options {
	body?: unknown;
	/** Makes a command that is sent again the same command. */
	key?: string;
	signal?: AbortSignal;
	accept?: string;
}

/** As long is waited for an answer to a question; commands may take what they need. */
const PATIENCE_MS = 120_000;

function inTime(signal: AbortSignal | undefined): AbortSignal {
	const limit = AbortSignal.timeout(PATIENCE_MS);
	return signal ? AbortSignal.any([signal, limit]) : limit;
}

export async function ask(method: string, path: string, options: Options = {}): Promise<Response> {
	const headers: Record<string, string> = { accept: options.accept ?? 'application/json', 'slipway-client': 'web' };
	const mine = token();
	if (mine) headers.authorization = `Bearer ${mine}`;
	if (options.body !== undefined) headers['content-type'] = 'application/json';
	if (options.key) headers['idempotency-key'] = options.key;
	let response: Response;
	try {
		response = await fetch(`/api/v1${path}`, {
			method,
			headers,
			body: options.body === undefined ? null : JSON.stringify(options.body),
			signal: method === 'GET' ? inTime(options.signal) : (options.signal ?? null),
		});
	} catch (error) {
		if (options.signal?.aborted) throw error;
		if (error instanceof DOMException && error.name === 'TimeoutError') {
			throw new ApiError({
				code: 'internal',
				status: 0,
				title: `The server did not answer within ${PATIENCE_MS / 60_000} minutes`,
				hint: 'It may have too much to do. Nothing was changed by asking; ask again.',
			});
		}
		throw new ApiError({
			code: 'internal',
			status: 0,
			title: 'The server cannot be reached',
			hint:
				method === 'GET'
					? 'It is asked again when the server is back. Agents go on meanwhile.'
					: 'What you wrote is kept here. It is sent when you try again.',
		});
	}
	if (!response.ok) throw new ApiError(await problemOf(response));
	return response;
}

async function problemOf(response: Response): Promise<Problem> {
	const text = await response.text();
	try {
		const problem = JSON.parse(text) as Problem;
		if (typeof problem.title === 'string') return problem;
	} catch {
		// A proxy in between answered in its own way.
	}
	return { code: 'internal', status: response.status, title: `The server answered ${response.status}` };
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
	const response = await ask('GET', path, signal ? { signal } : {});
	return (await response.json()) as T;
}

export async function send<T = undefined>(method: string, path: string, body?: unknown, key?: string): Promise<T> {
	const response = await ask(method, path, { body, ...(key ? { key } : {}) });
	const text = await response.text();
	return (text ? JSON.parse(text) : undefined) as T;
}

/** A query string of what is set. */
export function query(values: Record<string, string | number | boolean | null | undefined>): string {
	const search = new URLSearchParams();
	for (const [name, value] of Object.entries(values)) {
		if (value !== undefined && value !== null && value !== '') search.set(name, String(value));
	}
	const text = search.toString();
	return text ? `?${text}` : '';
}

/** A key for a command: random, and visible ASCII. */
export function newKey(): string {
	const bytes = crypto.getRandomValues(new Uint8Array(16));
	return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
