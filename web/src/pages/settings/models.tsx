// The models, what they cost and can, and a button that finds out whether they work.

import { useState } from 'react';
import { inWords, send } from '../../api/client';
import { useModels } from '../../api/queries';
import type { Model, ModelTest } from '../../api/types';
import { visible } from '../../text/hidden';
import { count, duration, money } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Button, Empty, Failure, Waiting } from '../../ui/parts';
import { StoredValue, useSecrets } from '../environments/secrets';

export function Models() {
	const models = useModels();
	if (models.error) return <Failure error={models.error} again={() => models.refetch()} />;
	if (!models.data) return <Waiting>Fetching the models</Waiting>;
	if (models.data.length === 0)
		return (
			<Empty title="No model yet">
				Add one to slipway.toml, under <code>[models.main]</code>, and start the server again.
			</Empty>
		);
	return (
		<ul className="flex flex-col gap-3">
			{models.data.map((model) => (
				<li key={model.name}>
					<One model={model} />
				</li>
			))}
		</ul>
	);
}

function One({ model }: { model: Model }) {
	const [test, setTest] = useState<ModelTest | { failed: unknown } | 'running' | null>(null);
	const secrets = useSecrets().data ?? [];
	const key = secrets.find((secret) => secret.models?.includes(model.name));
	const run = async () => {
		setTest('running');
		try {
			setTest(await send<ModelTest>('POST', `/models/${encodeURIComponent(model.name)}/test`));
		} catch (error) {
			setTest({ failed: error });
		}
	};
	const { price } = model;
	const facts = [
		`${model.provider} · ${model.model}`,
		model.context ? `${count(model.context)} tokens of context${model.context_assumed ? ' (assumed)' : ''}` : null,
		price
			? price.input || price.output
				? `$${price.input} in, $${price.output} out per million`
				: 'free'
			: 'price unknown',
		model.images ? 'sees images' : null,
		model.tool_mode ? `tools: ${model.tool_mode}` : null,
		model.fallback?.length ? `then ${model.fallback.join(', ')}` : null,
		model.tasks?.length ? `for ${model.tasks.join(', ')}` : null,
	].filter(Boolean);
	return (
		<section aria-label={model.name} className="rounded-md border border-line p-3">
			<div className="flex flex-wrap items-center gap-x-3 gap-y-1">
				<h2 className="font-semibold">{model.name}</h2>
				{model.default && <span className="rounded-sm bg-accent-soft px-1.5 text-xs">default</span>}
				<span className={`inline-flex items-center gap-1 text-xs ${model.key ? 'text-good' : 'text-bad'}`}>
					<Icon name={model.key ? 'check' : 'cross'} size={12} />{' '}
					{model.key ? 'has its key, or needs none' : 'has no key'}
				</span>
				<Button className="ml-auto" icon="play" busy={test === 'running'} onClick={run}>
					{test === 'running' ? 'Asking it' : 'Test'}
				</Button>
			</div>
			<p className="tabular text-sm break-words text-muted">{facts.join(' · ')}</p>
			{key && <StoredValue name={key.name} stored={key} />}
			<div role="status">
				{test &&
					test !== 'running' &&
					('failed' in test ? (
						<p className="mt-2 text-sm text-bad">{inWords(test.failed).title}</p>
					) : (
						<Result test={test} />
					))}
			</div>
		</section>
	);
}

function Result({ test }: { test: ModelTest }) {
	return (
		<div className="mt-3 border-t border-line pt-2 text-sm">
			<p className={`flex items-center gap-1.5 font-medium ${test.works ? 'text-good' : 'text-bad'}`}>
				<Icon name={test.works ? 'check' : 'cross'} size={14} />
				{test.works ? 'It works' : 'It does not work'}
				{test.first_token_ms != null && (
					<span className="tabular font-normal text-muted">first piece after {duration(test.first_token_ms)}</span>
				)}
				{test.cost_usd != null && <span className="tabular font-normal text-muted">{money(test.cost_usd)}</span>}
			</p>
			{test.reason && <p className="break-words">{visible(test.reason)}</p>}
			<ul className="mt-1">
				{test.findings?.map((finding) => (
					<li key={finding.text} className="flex items-start gap-1.5">
						<Icon
							name={finding.good ? 'check' : 'warning'}
							size={12}
							className={`mt-1 ${finding.good ? 'text-good' : 'text-needs'}`}
						/>
						<span className="min-w-0 break-words">{visible(finding.text)}</span>
					</li>
				))}
			</ul>
			{test.settings && test.settings.length > 0 && (
				<p className="mt-1 text-muted">
					Would fit it better, in <code>[models.{test.model}]</code>: <code>{test.settings.join(', ')}</code>
				</p>
			)}
		</div>
	);
}
