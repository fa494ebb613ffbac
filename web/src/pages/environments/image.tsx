// The image that sandboxes start from: its state, the steps of its last build with their times and output, and a build now.

import { useState } from 'react';
import { send } from '../../api/client';
import { queries } from '../../api/queries';
import type { ImageStatus, NamedEnvironment } from '../../api/types';
import { visible } from '../../text/hidden';
import { OutputText } from '../../text/output';
import { agoWords, bytes, duration, fullTime, plural } from '../../ui/format';
import { Icon, type IconName } from '../../ui/icons';
import { useNow } from '../../ui/now';
import { Button, Empty, Failure, Waiting } from '../../ui/parts';
import { complain, say } from '../../ui/toast';
import { ImageMark, useImage } from './index';

type Step = NonNullable<ImageStatus['steps']>[number];

export function Image({ environment: { name } }: { environment: NamedEnvironment }) {
	const image = useImage(name);
	const now = useNow();
	const [asked, setAsked] = useState(false);
	const build = async () => {
		setAsked(true);
		try {
			queries.setQueryData(
				['image', name],
				await send<ImageStatus>('POST', `/environments/${encodeURIComponent(name)}/build`, {}),
			);
			say('The build has begun');
		} catch (error) {
			complain(error);
		} finally {
			setAsked(false);
		}
	};
	if (image.error && !image.data) return <Failure error={image.error} again={() => image.refetch()} />;
	if (!image.data) return <Waiting>Looking at the image</Waiting>;
	const { current, steps = [], warm = 0, error } = image.data;
	const building = image.data.state === 'building';
	return (
		<div className="flex flex-col gap-4">
			<div className="flex flex-wrap items-center gap-x-4 gap-y-2">
				<span className="font-medium">
					<ImageMark image={image.data} />
				</span>
				{current && (
					<span className="tabular flex flex-wrap gap-x-4 text-sm text-muted">
						<span title={fullTime(current.built_at)}>built {agoWords(current.built_at, now)}</span>
						<span>in {duration(current.duration_ms)}</span>
						<span>{bytes(current.bytes)}</span>
						<span className="code">
							{visible(current.branch)} at {current.commit.slice(0, 10)}
						</span>
					</span>
				)}
				<span className="text-sm text-muted">
					{warm ? `${plural(warm, 'sandbox', 'sandboxes')} ready` : 'no sandbox kept ready'}
				</span>
				<Button className="ml-auto" icon="retry" busy={asked || building} onClick={build}>
					{building ? 'Building' : 'Build now'}
				</Button>
			</div>
			{image.data.outdated && (
				<p className="rounded-md bg-needs-soft px-3 py-2 text-sm text-needs">
					The recipe was changed since this image was built. Sessions do without it until it is built again.
				</p>
			)}
			{error && (
				<p role="alert" className="rounded-md bg-bad-soft px-3 py-2 text-sm break-words whitespace-pre-wrap">
					{visible(error)}
				</p>
			)}
			{steps.length === 0 && !current && !building && !error && (
				<Empty title="Nothing was built yet">
					Without an image each session prepares its workspace itself. Building it once makes sessions start faster.
				</Empty>
			)}
			{steps.length > 0 && (
				<section aria-label="Steps of the build">
					<h2 className="heading mb-1">Steps of the {building ? 'build under way' : 'last build'}</h2>
					<ol className="divide-y divide-line border-y border-line">
						{steps.map((step, at) => (
							<li key={at}>
								<StepRow step={step} />
							</li>
						))}
					</ol>
				</section>
			)}
			{current?.checks && current.checks.length > 0 && (
				<section aria-label="Checks of the image">
					<h2 className="heading mb-1">Checks, as they were before any work</h2>
					<ul className="flex flex-col gap-1 text-sm">
						{current.checks.map((check) => (
							<li key={check.name} className="flex flex-wrap items-center gap-x-3">
								<Icon
									name={check.state === 'passed' ? 'check' : 'warning'}
									size={14}
									className={check.state === 'passed' ? 'text-good' : 'text-needs'}
								/>
								<span>{visible(check.name)}</span>
								<span className="text-muted">{check.state.replaceAll('_', ' ')}</span>
								{check.failures ? <span className="text-muted">{plural(check.failures, 'failure')} known</span> : null}
								{check.why && (
									<span className="min-w-0 break-words whitespace-pre-wrap text-muted">{visible(check.why)}</span>
								)}
								{check.duration_ms != null && (
									<span className="tabular ml-auto text-xs text-muted">{duration(check.duration_ms)}</span>
								)}
							</li>
						))}
					</ul>
				</section>
			)}
		</div>
	);
}

const looks: Record<string, { icon: IconName; colour: string; word: string }> = {
	pending: { icon: 'circle', colour: 'text-off', word: 'waits' },
	running: { icon: 'half', colour: 'text-working', word: 'running' },
	built: { icon: 'check', colour: 'text-good', word: 'done' },
	cached: { icon: 'check', colour: 'text-off', word: 'as before' },
	failed: { icon: 'cross', colour: 'text-bad', word: 'failed' },
};

function StepRow({ step }: { step: Step }) {
	// One that fails while somebody watches opens by itself.
	const [chosen, setOpen] = useState<boolean | null>(null);
	const open = chosen ?? step.state === 'failed';
	const look = looks[step.state] ?? { icon: 'circle' as const, colour: 'text-off', word: step.state };
	const more = Boolean(step.output) || Boolean(step.notes?.length);
	const line = (
		<>
			<Icon
				name={more ? (open ? 'down' : 'right') : 'dot'}
				size={12}
				className={more ? 'text-muted' : 'text-transparent'}
			/>
			<Icon name={look.icon} size={14} className={look.colour} />
			<span className="code min-w-0 flex-1 truncate text-left">{visible(step.title)}</span>
			<span className={`text-xs ${look.colour}`}>{look.word}</span>
			{step.attempts && step.attempts > 1 ? <span className="text-xs text-muted">try {step.attempts}</span> : null}
			<span className="tabular w-20 text-right text-xs text-muted">
				{step.duration_ms != null && step.state !== 'pending' ? duration(step.duration_ms) : ''}
			</span>
			<span className="tabular w-20 text-right text-xs text-muted max-md:hidden">
				{step.bytes ? bytes(step.bytes) : ''}
			</span>
		</>
	);
	return (
		<>
			{more ? (
				<button
					type="button"
					aria-expanded={open}
					onClick={() => setOpen(!open)}
					className="target flex min-h-8 w-full items-center gap-2 px-1 hover:bg-sunken"
				>
					{line}
				</button>
			) : (
				<p className="flex min-h-8 items-center gap-2 px-1">{line}</p>
			)}
			{open && (
				<div className="mb-2 rounded-md bg-sunken">
					{step.notes?.map((note) => (
						<p key={note} className="px-3 py-1 text-xs break-words whitespace-pre-wrap text-needs">
							{visible(note)}
						</p>
					))}
					{step.output && <OutputText text={step.output} />}
				</div>
			)}
		</>
	);
}
