// The recipe, to be read and changed: the common parts as fields, everything as JSON. The server looks at each change
// before it is saved and says what is wrong with it.
import { useEffect, useRef, useState } from 'react';
import { inWords, send } from '../../api/client';
import { queries, useModels } from '../../api/queries';
import type { Environment, NamedEnvironment } from '../../api/types';
import { Icon } from '../../ui/icons';
import { Button, Segments } from '../../ui/parts';
import { go, paths } from '../../ui/router';
import { complain, say } from '../../ui/toast';
import { Fields } from './fields';
import NewEnvironment from './new';

type Verdict = { state: 'same' | 'looking' | 'good' } | { state: 'bad'; title: string; hint?: string | undefined };

export default function Recipe({ environment }: { environment: NamedEnvironment }) {
	const { name, source, image: _, ...kept } = environment;
	const fixed = source === 'config';
	const [how, setHow] = useState<'fields' | 'json'>('fields');
	const before = JSON.stringify(kept, null, 2);
	const [recipe, setRecipe] = useState<Environment>(kept);
	const [text, setText] = useState(before);
	const [wrong, setWrong] = useState<string | null>(null);
	const [busy, setBusy] = useState(false);
	const [copying, setCopying] = useState(false);
	const now = JSON.stringify(recipe, null, 2);
	const verdict = useVerdict(name, recipe, now !== before && !wrong && !fixed);

	const write = (next: string) => {
		setText(next);
		try {
			setRecipe(JSON.parse(next) as Environment);
			setWrong(null);
		} catch (error) {
			setWrong(error instanceof Error ? error.message : String(error));
		}
	};
	const change = (part: Partial<Environment>) => {
		const next = { ...recipe, ...part };
		setRecipe(next);
		setText(JSON.stringify(next, null, 2));
	};
	const save = async () => {
		setBusy(true);
		try {
			const saved = await send<NamedEnvironment>('PUT', `/environments/${encodeURIComponent(name)}`, recipe);
			const { name: _name, source: _source, image: _image, ...next } = saved;
			setRecipe(next);
			setText(JSON.stringify(next, null, 2));
			say('Saved; sessions from now on use it');
			await queries.invalidateQueries({ queryKey: ['environments'] });
			queries.invalidateQueries({ queryKey: ['image', name] });
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
			{how === 'fields' ? (
				<Fields recipe={recipe} change={change} fixed={fixed} />
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
						<Button
							kind="quiet"
							disabled={!dirty}
							onClick={() => {
								setRecipe(kept);
								setText(before);
								setWrong(null);
							}}
						>
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
			{copying && <NewEnvironment close={() => setCopying(false)} recipe={recipe} from={name} />}
		</div>
	);
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
