// The call that waits: as the model wrote it, or with its input to be changed before it runs.

import { useMemo } from 'react';
import type { AskedCall } from '../../../api/types';
import { changesOf, given } from '../../../diff/calls';
import { parsePatch, withoutCut } from '../../../diff/parse';
import { PatchView } from '../../../diff/patch';
import { describeCall } from '../../../live/derive';
import { visible } from '../../../text/hidden';

export function Call({ call }: { call: AskedCall }) {
	const files = useMemo(() => {
		// The server knows the files as they are; an older one leaves it to what the model wrote.
		const { patch } = withoutCut(call.diff ?? '');
		return call.diff ? parsePatch(patch) : changesOf(call.tool, call.input);
	}, [call]);
	const cut = call.diff ? withoutCut(call.diff).cut : null;
	const { verb, object } = describeCall(call.tool, call.input);
	const command = call.tool === 'shell' ? given(call.input, 'command') : null;
	return (
		<>
			{command === null && !files && (
				<p className="code px-3 py-1.5 break-words">
					{verb} {object}
				</p>
			)}
			{files ? (
				<div className="border-t border-line">
					<PatchView files={files} />
					{cut && <p className="px-3 py-1 text-xs text-muted">Not all of it is here: {cut}.</p>}
				</div>
			) : (
				// biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable from the keyboard.
				<pre tabIndex={0} className="code max-h-60 overflow-auto bg-sunken px-3 py-2 whitespace-pre-wrap break-words">
					{visible(command !== null ? `$ ${command}` : JSON.stringify(call.input, null, 2))}
				</pre>
			)}
		</>
	);
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
				</label>
			))}
		</div>
	);
}
