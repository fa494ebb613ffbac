// What is remembered across sessions of this environment, and by whom.
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { get, query, send } from '../../api/client';
import { queries } from '../../api/queries';
import type { NamedEnvironment, RememberedNote } from '../../api/types';
import { visible } from '../../text/hidden';
import { useDraft, useDraftOf } from '../../ui/draft';
import { ago, plural } from '../../ui/format';
import { useNow } from '../../ui/now';
import { Button, Failure, IconButton, Waiting } from '../../ui/parts';
import { Link, paths } from '../../ui/router';
import { complain, say } from '../../ui/toast';

const kinds: Record<RememberedNote['kind'], string> = {
	fact: 'fact',
	decision: 'decision',
	error_pattern: 'error and its cure',
};

export function Memory({ environment: { name, memory } }: { environment: NamedEnvironment }) {
	const [text, setText] = useDraft(`memory.${name}`);
	const [kind, setKind] = useState<RememberedNote['kind']>('fact');
	const notes = useQuery({
		queryKey: ['memory', name],
		queryFn: async ({ signal }) =>
			(await get<{ notes: RememberedNote[] }>(`/memory${query({ scope: `environment:${name}` })}`, signal)).notes,
	});
	const again = () => queries.invalidateQueries({ queryKey: ['memory', name] });
	const add = async (event: FormEvent) => {
		event.preventDefault();
		if (!text.trim()) return;
		try {
			await send('POST', '/memory', { scope: { kind: 'environment', name }, kind, text: text.trim() });
			setText('');
			say('Remembered');
			again();
		} catch (error) {
			complain(error);
		}
	};
	if (notes.error && !notes.data) return <Failure error={notes.error} again={() => notes.refetch()} />;
	if (!notes.data) return <Waiting>Remembering</Waiting>;
	return (
		<div className="flex flex-col gap-4">
			{memory === false && (
				<p className="rounded-md bg-needs-soft px-3 py-2 text-sm text-needs">
					Sessions of this environment neither know nor keep any of this: its recipe says so.
				</p>
			)}
			<form onSubmit={add} className="flex flex-wrap items-start gap-2">
				<textarea
					className="field min-w-60 flex-1"
					rows={2}
					aria-label="Something to remember"
					placeholder="What every session here should know, in one or two sentences"
					value={text}
					onChange={(event) => setText(event.target.value)}
				/>
				<select
					className="field w-auto"
					aria-label="What it is"
					value={kind}
					onChange={(event) => setKind(event.target.value as RememberedNote['kind'])}
				>
					{Object.entries(kinds).map(([value, label]) => (
						<option key={value} value={value}>
							{label}
						</option>
					))}
				</select>
				<Button type="submit" disabled={!text.trim()}>
					Remember
				</Button>
			</form>
			{notes.data.length === 0 && (
				<p className="text-sm text-muted">Nothing is remembered yet. Agents add to it as they work.</p>
			)}
			<ul className="divide-y divide-line border-y border-line empty:hidden">
				{notes.data.map((note) => (
					<li key={note.id}>
						<NoteRow note={note} changed={again} />
					</li>
				))}
			</ul>
		</div>
	);
}

function NoteRow({ note, changed }: { note: RememberedNote; changed: () => void }) {
	const [draft, setDraft] = useDraftOf<string>(`note.${note.id}`);
	const [began, setBegan] = useState(false);
	const now = useNow();
	const path = `/memory/${encodeURIComponent(note.id)}`;
	const save = (event: FormEvent) => {
		event.preventDefault();
		const next = draft?.trim();
		if (!next || next === note.text) {
			setDraft(null);
			return;
		}
		const saved = () => {
			setDraft(null);
			changed();
		};
		send('PATCH', path, { text: next }).then(saved, complain);
	};
	if (draft !== null) {
		return (
			<form onSubmit={save} className="flex gap-2 py-2">
				<textarea
					className="field"
					rows={3}
					aria-label="The note"
					autoFocus={began}
					value={draft}
					onChange={(event) => setDraft(event.target.value)}
				/>
				<Button kind="primary" type="submit">
					Save
				</Button>
				<Button kind="quiet" onClick={() => setDraft(null)}>
					Cancel
				</Button>
			</form>
		);
	}
	return (
		<div className="flex items-start gap-2 py-2">
			<div className="min-w-0 flex-1">
				<p className="text-sm break-words whitespace-pre-wrap">{visible(note.text)}</p>
				<p className="text-xs text-muted">
					{kinds[note.kind]} · {visible(note.source.author.id)}
					{note.source.session && (
						<>
							{' in '}
							<Link to={paths.session(note.source.session)} className="text-accent hover:underline">
								a session
							</Link>
						</>
					)}
					{` · ${ago(note.changed_at, now)} · used ${plural(note.uses, 'time')}`}
				</p>
			</div>
			<IconButton
				icon="edit"
				label="Change it"
				size={14}
				onClick={() => {
					setBegan(true);
					setDraft(note.text);
				}}
			/>
			<IconButton
				icon="cross"
				label="Forget it"
				size={14}
				onClick={() => send('DELETE', path).then(changed, complain)}
			/>
		</div>
	);
}
