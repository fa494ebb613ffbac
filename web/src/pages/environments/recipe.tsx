// The recipe, to be read and changed: the common parts as fields, everything as JSON. The server looks at each change
// before it is saved and says what is wrong with it.
import { useEffect, useMemo, useRef, useState } from 'react';
import { inWords, send } from '../../api/client';
import { queries, useModels } from '../../api/queries';
import type { Environment, NamedEnvironment } from '../../api/types';
import { useDraftOf } from '../../ui/draft';
import { Icon } from '../../ui/icons';
import { Button, Segments } from '../../ui/parts';
import { go, paths } from '../../ui/router';
import { complain, say } from '../../ui/toast';
import { Fields } from './fields';
import NewEnvironment from './new';

/** What was written, and the recipe as it was when somebody began. Kept in this browser until it is saved. */
interface Draft {
	base: string;
	text: string;
}

type Verdict = { state: 'same' | 'looking' | 'good' } | { state: 'bad'; title: string; hint?: string | undefined };

export default function Recipe({ environment }: { environment: NamedEnvironment }) {
	const { name, source, image: _, ...kept } = environment;
	const fixed = source === 'config';
	const [how, setHow] = useState<'fields' | 'json'>('fields');
	const before = written(kept);
	const [draft, setDraft] = useDraftOf<Draft>(`recipe.${name}`);
	const { text, wrong, moved } = useMemo(() => onTopOf(before, fixed ? null : draft), [before, draft, fixed]);
	const recipe = useMemo(() => (wrong ? null : (JSON.parse(text) as Environment)), [text, wrong]);
	// What cannot be read yet is shown in the fields as it was before.
	const shown = recipe ?? kept;
	const [busy, setBusy] = useState(false);
	const [copying, setCopying] = useState(false);
	const now = written(shown);
	const verdict = useVerdict(name, shown, now !== before && !wrong && !fixed);
	const latest = useRef(text);
	latest.current = text;

	const write = (next: string) =>
		setDraft(next === before ? null : { base: wrong && draft ? draft.base : before, text: next });
	const change = (part: Partial<Environment>) => write(written({ ...shown, ...part }));
	const save = async () => {
		if (!recipe) return;
		setBusy(true);
		try {
			await send<NamedEnvironment>('PUT', `/environments/${encodeURIComponent(name)}`, recipe);
			say('Saved; sessions from now on use it');
			await queries.invalidateQueries({ queryKey: ['environments'] });
			queries.invalidateQueries({ queryKey: ['image', name] });
			// What was written while it was saved is not saved.
			if (latest.current === text) setDraft(null);
		} catch (error) {
			complain(error);
		} finally {
			setBusy(false);
		}
	};
	const remove = async () => {
		if (!window.confirm(`Remove the environment ${name}? Sessions that were made from it keep their copy.`)) return;
		try {
			await send('DELETE', `/environments/${encodeURIComponent(name)}`);
			setDraft(null);
			await queries.invalidateQueries({ queryKey: ['environments'] });
			go(paths.environments());
		} catch (error) {
			complain(error);
		}
	};
	const dirty = now !== before || wrong !== null;
	return (
		<div className="flex flex-col gap-4">
			<div className="flex flex-wrap items-center gap-2">
				<Segments
					label="How it is shown"
					value={how}
					options={[
						{ value: 'fields', label: 'Fields' },
						{ value: 'json', label: 'JSON' },
					]}
					onChange={setHow}
				/>
				<span className="ml-auto flex gap-2">
					<Button icon="copy" onClick={() => setCopying(true)}>
						Copy it
					</Button>
					{!fixed && (
						<Button kind="danger" onClick={remove}>
							Remove
						</Button>
					)}
				</span>
			</div>
			{fixed && (
				<p className="rounded-md bg-sunken px-3 py-2 text-sm text-muted">
					This environment is written in the configuration file, and changed there, under{' '}
					<code>[environments.{name}]</code>. A copy under another name can be changed here.
				</p>
			)}
			{moved && dirty && (
				<p role="status" className="rounded-md bg-sunken px-3 py-2 text-sm">
					{wrong
						? 'The recipe was changed meanwhile. As soon as this is JSON again, what you changed is put on top of it.'
						: 'The recipe was changed meanwhile. What you changed is put on top of it here, and nothing is saved yet.'}
				</p>
			)}
			{how === 'fields' ? (
				<Fields recipe={shown} change={change} fixed={fixed} />
			) : (
				<textarea
					aria-label="The recipe as JSON"
					aria-invalid={wrong !== null}
					spellCheck={false}
					readOnly={fixed}
					className="field code min-h-[420px] resize-y"
					value={text}
					onChange={(event) => write(event.target.value)}
				/>
			)}
			{!fixed && (
				<div className="sticky bottom-0 flex flex-wrap items-center gap-3 border-t border-line bg-background py-3">
					<Said verdict={wrong ? { state: 'bad', title: `This is no JSON: ${wrong}` } : verdict} />
					<span className="ml-auto flex gap-2">
						<Button kind="quiet" disabled={!dirty} onClick={() => setDraft(null)}>
							Undo
						</Button>
						<Button
							kind="primary"
							busy={busy}
							disabled={!dirty || verdict.state === 'bad' || wrong !== null}
							onClick={save}
						>
							Save
						</Button>
					</span>
				</div>
			)}
			{copying && <NewEnvironment close={() => setCopying(false)} recipe={shown} from={name} />}
		</div>
	);
}

const written = (recipe: Environment) => JSON.stringify(recipe, null, 2);

/**
 * A draft as it is now. Where the recipe itself was changed meanwhile, such as by a host that was allowed, the parts that the
 * draft changed are put on top of that, so that saving it takes nothing back.
 */
export function onTopOf(before: string, draft: Draft | null): { text: string; wrong: string | null; moved: boolean } {
	if (!draft) return { text: before, wrong: null, moved: false };
	const moved = draft.base !== before;
	let mine: Record<string, unknown>;
	try {
		mine = JSON.parse(draft.text) as Record<string, unknown>;
		if (typeof mine !== 'object' || mine === null || Array.isArray(mine)) throw new Error('it has no parts');
	} catch (error) {
		return { text: draft.text, wrong: error instanceof Error ? error.message : String(error), moved };
	}
	if (!moved) return { text: draft.text, wrong: null, moved };
	const base = JSON.parse(draft.base) as Record<string, unknown>;
	const next = JSON.parse(before) as Record<string, unknown>;
	for (const part of new Set([...Object.keys(base), ...Object.keys(mine)])) {
		if (JSON.stringify(base[part]) === JSON.stringify(mine[part])) continue;
		if (part in mine) next[part] = mine[part];
		else delete next[part];
	}
	return { text: JSON.stringify(next, null, 2), wrong: null, moved };
}

/** What the server says of a recipe, asked a moment after the last change. */
function useVerdict(name: string, recipe: Environment, changed: boolean): Verdict {
	const [verdict, setVerdict] = useState<Verdict>({ state: 'same' });
	const body = JSON.stringify(recipe);
	const asked = useRef(0);
	useEffect(() => {
		asked.current += 1;
		const mine = asked.current;
		if (!changed) {
			setVerdict({ state: 'same' });
			return;
		}
		setVerdict({ state: 'looking' });
		const timer = setTimeout(() => {
			send('POST', `/environments/${encodeURIComponent(name)}/check`, JSON.parse(body)).then(
				() => mine === asked.current && setVerdict({ state: 'good' }),
				(error) => mine === asked.current && setVerdict({ state: 'bad', ...inWords(error) }),
			);
		}, 500);
		return () => clearTimeout(timer);
	}, [name, body, changed]);
	return verdict;
}

function Said({ verdict }: { verdict: Verdict }) {
	switch (verdict.state) {
		case 'same':
			return <p className="text-sm text-muted">As it is saved</p>;
		case 'looking':
			return (
				<p role="status" className="text-sm text-muted">
					Looking whether it can be used
				</p>
			);
		case 'good':
			return (
				<p role="status" className="flex items-center gap-1.5 text-sm text-good">
					<Icon name="check" size={14} /> It can be used
				</p>
			);
		case 'bad':
			return (
				<p role="alert" className="flex min-w-0 items-start gap-1.5 text-sm">
					<Icon name="warning" size={14} className="mt-0.5 text-bad" />
					<span className="min-w-0 break-words">
						{verdict.title}
						{verdict.hint && <span className="block text-muted">{verdict.hint}</span>}
					</span>
				</p>
			);
	}
}

export function ModelField({
	value,
	onChange,
	fixed,
}: {
	value: string;
	onChange: (value: string) => void;
	fixed: boolean;
}) {
	const models = useModels().data ?? [];
	return (
		<select className="field w-auto" disabled={fixed} value={value} onChange={(event) => onChange(event.target.value)}>
			<option value="">The default model</option>
			{[...new Set([...models.map((one) => one.name), ...(value ? [value] : [])])].map((name) => (
				<option key={name}>{name}</option>
			))}
		</select>
	);
}
