// A new session: where, with which model, and what. The first keystroke warms a sandbox.
import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from 'react';
import { ApiError, newKey, send } from '../api/client';
import { queries, useEnvironments, useModels } from '../api/queries';
import type { Session } from '../api/types';
import { visible } from '../text/hidden';
import { useDraft } from '../ui/draft';
import { Icon } from '../ui/icons';
import { mod } from '../ui/keys';
import { Button, Empty, Failure, Kbd } from '../ui/parts';
import { go, Link, paths, useSearch } from '../ui/router';
import { Microphone } from '../ui/speech';
import { useWarm, Warmth } from './new-session/warm';

const LAST = 'slipway.environment';

export default function NewSession() {
	const [search, change] = useSearch();
	const environments = useEnvironments();
	const models = useModels().data ?? [];
	const [text, setText] = useDraft('new');
	const [model, setModel] = useState('');
	const [busy, setBusy] = useState(false);
	const [error, setError] = useState<unknown>(null);
	const [touched, setTouched] = useState(false);
	const sent = useRef({ body: '', key: '' });
	const field = useRef<HTMLTextAreaElement>(null);
	const names = environments.data?.map((one) => one.name) ?? [];
	const wanted = search.get('environment') ?? localStorage.getItem(LAST) ?? '';
	const environment = names.includes(wanted) ? wanted : (names[0] ?? '');
	const asked = search.get('environment') ?? '';
	const recipe = environments.data?.find((one) => one.name === environment);

	useEffect(() => field.current?.focus(), []);

	// Somebody writes: a sandbox is made ready meanwhile.
	const warm = useWarm(text !== '' && touched ? environment : '');
	const write = (value: string) => {
		setText(value);
		setTouched(true);
	};
	const start = async (event?: FormEvent) => {
		event?.preventDefault();
		if (!text.trim() || !environment || busy) return;
		setBusy(true);
		setError(null);
		const body = { environment, prompt: text.trim(), ...(model ? { model } : {}) };
		// The same wish has the same key until it is answered, so that a lost answer does not make a second session.
		const wish = JSON.stringify(body);
		if (sent.current.body !== wish) sent.current = { body: wish, key: newKey() };
		try {
			const session = await send<Session>('POST', '/sessions', body, sent.current.key);
			localStorage.setItem(LAST, environment);
			setText('');
			queries.invalidateQueries({ queryKey: ['sessions'] });
			go(paths.session(session.id));
		} catch (failure) {
			setError(failure);
			setBusy(false);
			if (failure instanceof ApiError && failure.status > 0) sent.current.body = '';
		}
	};
	const onKeyDown = (event: KeyboardEvent) => {
		if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) {
			event.preventDefault();
			start();
		}
	};
	if (environments.data?.length === 0) {
		return (
			<Empty title="No environment yet">
				<p>An environment says which repository an agent works on and how its work is checked.</p>
				<Link to={`${paths.environments()}?new=1`} className="mt-3 inline-block text-accent underline">
					Make one here
				</Link>
				<p className="mt-3">Or from a terminal:</p>
				<pre className="code mt-1 rounded-md bg-sunken p-3 text-left">slipway env add shop --repo ~/src/shop</pre>
			</Empty>
		);
	}
	const own = recipe?.model ?? models.find((one) => one.default)?.name;
	const check = recipe?.checks?.[0]?.name;
	const examples = [
		'Find the flakiest test and make it reliable',
		check
			? `Make the check "${check}" pass, and say what was wrong`
			: 'Find out how this repository is tested, and run it',
		'Explain what the code that changed last does, and whether it is tested',
	];
	return (
		<form
			onSubmit={start}
			className="mx-auto flex w-full max-w-[820px] flex-1 flex-col gap-3 overflow-y-auto p-4 md:pt-[12vh]"
		>
			<h1 className="text-xl font-semibold">What is to be done?</h1>
			<div className="rounded-lg border border-line-strong bg-surface focus-within:border-accent">
				<textarea
					ref={field}
					aria-label="What is to be done"
					className="block min-h-32 w-full resize-y bg-transparent p-3 outline-none"
					placeholder="Describe the task as you would to a colleague: what is wrong or wanted, and how one can tell that it is done."
					value={text}
					onChange={(event) => write(event.target.value)}
					onKeyDown={onKeyDown}
				/>
				<div className="flex flex-wrap items-center gap-2 border-t border-line p-2">
					<label className="flex items-center gap-1.5 text-xs text-muted">
						<Icon name="box" size={14} />
						<span className="sr-only">Environment</span>
						<select
							className="field w-auto"
							value={environment}
							onChange={(event) => {
								change({ environment: event.target.value });
							}}
						>
							{names.map((name) => (
								<option key={name}>{name}</option>
							))}
						</select>
					</label>
					<label className="text-xs text-muted">
						<span className="sr-only">Model</span>
						<select className="field w-auto" value={model} onChange={(event) => setModel(event.target.value)}>
							<option value="">{own ?? 'its own model'}</option>
							{models
								.filter((one) => one.name !== own)
								.map((one) => (
									<option key={one.name}>{one.name}</option>
								))}
						</select>
					</label>
					<span role="status" className="text-xs text-muted">
						<Warmth warm={warm} />
					</span>
					<span className="ml-auto flex items-center gap-2">
						<Microphone onText={(more) => write(text ? `${text} ${more}` : more)} />
						<span className="max-md:hidden">
							<Kbd>{mod}Enter</Kbd>
						</span>
						<Button kind="primary" type="submit" busy={busy} disabled={!text.trim()}>
							{busy ? 'Starting' : 'Start'}
						</Button>
					</span>
				</div>
			</div>
			{asked && environments.data && !names.includes(asked) && (
				<p className="rounded-md bg-needs-soft px-3 py-2 text-sm break-words text-needs">
					There is no environment {visible(asked)} here: this begins in {environment}, or in another one that you
					choose.
				</p>
			)}
			{Boolean(error) && <Failure error={error} again={() => start()} />}
			{environments.error && <Failure error={environments.error} again={() => environments.refetch()} />}
			{!text && (
				<section className="mt-2">
					<h2 className="heading mb-1">For example</h2>
					<ul className="flex flex-col">
						{examples.map((example) => (
							<li key={example}>
								<button
									type="button"
									className="target flex w-full items-center gap-2 rounded-md px-2 py-1.5 text-left text-sm hover:bg-sunken"
									onClick={() => {
										write(example);
										field.current?.focus();
									}}
								>
									<Icon name="right" size={12} className="text-muted" />
									{example}
								</button>
							</li>
						))}
					</ul>
				</section>
			)}
		</form>
	);
}
