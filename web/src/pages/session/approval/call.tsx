// The call that waits: as the model wrote it, or with its input to be changed before it runs.

import { useMemo } from 'react';
import type { AskedCall } from '../../../api/types';
import { besides, changesOf, given } from '../../../diff/calls';
import { parsePatch, withoutCut } from '../../../diff/parse';
import { PatchView } from '../../../diff/patch';
import { describeCall } from '../../../live/derive';
import { hides, visible } from '../../../text/hidden';
import { duration } from '../../../ui/format';

export function Call({ call }: { call: AskedCall }) {
	const files = useMemo(() => {
		// The server knows the files as they are; an older one leaves it to what the model wrote.
		const { patch } = withoutCut(call.diff ?? '');
		return call.diff ? parsePatch(patch) : changesOf(call.tool, call.input);
	}, [call]);
	const cut = call.diff ? withoutCut(call.diff).cut : null;
	const { verb, object } = describeCall(call.tool, call.input);
	const command = call.tool === 'shell' ? given(call.input, 'command') : null;
	const rest = files
		? besides(call.input, ['path', 'old', 'new', 'content', 'patch'])
		: command !== null
			? besides(call.input, ['command'])
			: [];
	return (
		<>
			{command === null && !files && (
				<p className="code px-3 py-1.5 break-words">
					{verb} {object}
				</p>
			)}
			{files ? (
				<div className="border-t border-line">
					<PatchView files={files} all />
					{cut && <p className="px-3 py-1 text-xs text-muted">Not all of it is here: {cut}.</p>}
				</div>
			) : (
				// biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable from the keyboard.
				<pre tabIndex={0} className="code max-h-60 overflow-auto bg-sunken px-3 py-2 whitespace-pre-wrap break-words">
					{visible(command !== null ? `$ ${command}` : JSON.stringify(call.input, null, 2))}
				</pre>
			)}
			{rest.length > 0 && (
				<dl aria-label="What else it was given" className="border-t border-line px-3 py-1.5 text-sm">
					{rest.map(([name, value]) => (
						<div key={name} className="flex gap-2">
							<dt className="code shrink-0 text-muted">{visible(name)}</dt>
							<dd className="code max-h-40 min-w-0 overflow-auto break-words whitespace-pre-wrap">
								{visible(typeof value === 'string' ? value : JSON.stringify(value, null, 1))}
								{inTime(name, value)}
							</dd>
						</div>
					))}
				</dl>
			)}
		</>
	);
}

/** A number of milliseconds or seconds as people read it. */
function inTime(name: string, value: unknown): string {
	if (typeof value !== 'number' || !Number.isFinite(value)) return '';
	const factor = /_ms$/.test(name) ? 1 : /_(s|secs?|seconds)$/.test(name) ? 1000 : 0;
	return factor ? ` (${duration(value * factor)})` : '';
}

const fieldsOf = (input: unknown): Record<string, unknown> =>
	input && typeof input === 'object' && !Array.isArray(input) ? (input as Record<string, unknown>) : {};

/** What is written while a call is changed: each part of its input as text. */
export type Draft = Record<string, string>;

export function draftOf(input: unknown): Draft {
	const fields = Object.entries(fieldsOf(input));
	return Object.fromEntries(
		fields.map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
	);
}

/** The input that a draft stands for, or what is wrong with it. What was text stays text; the rest is JSON. */
export function inputOf(input: unknown, draft: Draft): { input: Record<string, unknown> } | { wrong: string } {
	const made: Record<string, unknown> = {};
	for (const [name, value] of Object.entries(fieldsOf(input))) {
		const text = draft[name] ?? '';
		if (typeof value === 'string') {
			made[name] = text;
			continue;
		}
		try {
			made[name] = JSON.parse(text) as unknown;
		} catch {
			return { wrong: `${name} is no JSON` };
		}
	}
	return { input: made };
}

export function EditCall({
	call,
	draft,
	change,
	focus,
}: {
	call: AskedCall;
	draft: Draft;
	change: (draft: Draft) => void;
	focus: boolean;
}) {
	return (
		<div className="flex flex-col gap-2 p-3">
			{Object.entries(draft).map(([name, value], at) => (
				<label key={name} className="flex flex-col gap-1 text-xs text-muted">
					<span className="code">{name}</span>
					<textarea
						autoFocus={focus && at === 0}
						spellCheck={false}
						aria-label={`${name} of ${call.tool}`}
						rows={Math.min(12, value.split('\n').length + (value.length > 80 ? 1 : 0))}
						className="field code resize-y"
						value={value}
						onChange={(event) => change({ ...draft, [name]: event.target.value })}
					/>
					{hides(value) && (
						<span className="code max-h-24 overflow-auto break-words whitespace-pre-wrap text-needs">
							With characters that nobody sees: {visible(value)}
						</span>
					)}
				</label>
			))}
		</div>
	);
}
