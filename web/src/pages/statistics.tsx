// What came of the sessions. Each chart is one idea, with the number in words above it and its table beside it.
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { get, query } from '../api/client';
import { useEnvironments, useModels } from '../api/queries';
import type { Statistics, StatisticsPart } from '../api/types';
import { Chart, day, type Series } from '../ui/chart';
import { duration, money, plural } from '../ui/format';
import { Icon } from '../ui/icons';
import { Failure, Segments, Waiting } from '../ui/parts';
import { Link, useSearch } from '../ui/router';

const ranges = [
	{ value: '7', label: '7 days', bucket: 'day' },
	{ value: '30', label: '30 days', bucket: 'day' },
	{ value: '90', label: '90 days', bucket: 'week' },
	{ value: '365', label: 'A year', bucket: 'month' },
];

const back = (days: number) => new Date(Date.now() - (days - 1) * 86_400_000).toISOString().slice(0, 10);
const share = (part: number, whole: number) => (whole ? `${Math.round((part / whole) * 100)} %` : 'none yet');

export default function StatisticsPage() {
	const [search, change] = useSearch();
	const range = ranges.find((one) => one.value === search.get('days')) ?? ranges[1];
	const environment = search.get('environment') ?? '';
	const person = search.get('person') ?? '';
	const model = search.get('model') ?? '';
	const environments = useEnvironments().data ?? [];
	const models = useModels().data ?? [];
	const asked = { from: back(Number(range?.value)), bucket: range?.bucket, environment, person, model };
	const statistics = useQuery({
		queryKey: ['statistics', asked],
		queryFn: ({ signal }) => get<Statistics>(`/statistics${query(asked)}`, signal),
		placeholderData: keepPreviousData,
		refetchInterval: 15_000,
	});
	return (
		<div className="min-h-0 flex-1 overflow-y-auto">
			<header className="sticky top-0 z-10 flex flex-wrap items-center gap-2 border-b border-line bg-background px-4 py-2">
				<h1 className="mr-2 font-semibold">Statistics</h1>
				<Segments
					label="Time"
					value={range?.value ?? '30'}
					options={ranges}
					onChange={(days) => change({ days: days === '30' ? null : days })}
				/>
				<Choice
					label="Environment"
					all="All environments"
					value={environment}
					names={environments.map((one) => one.name)}
					onChange={(value) => change({ environment: value })}
				/>
				<Choice
					label="Model"
					all="All models"
					value={model}
					names={models.map((one) => one.name)}
					onChange={(value) => change({ model: value })}
				/>
				{person && (
					<button
						type="button"
						className="target inline-flex h-8 items-center gap-1 rounded-md border border-line-strong px-2 text-sm"
						onClick={() => change({ person: null })}
					>
						{person} <Icon name="cross" size={12} />
						<span className="sr-only">: show everybody</span>
					</button>
				)}
				<span className="ml-auto">{statistics.data && <Prompting people={statistics.data.prompting.people} />}</span>
			</header>
			<div className="mx-auto flex max-w-[1100px] flex-col gap-8 p-4">
				{statistics.error && <Failure error={statistics.error} again={() => statistics.refetch()} />}
				{statistics.isPending && <Waiting>Counting</Waiting>}
				{statistics.data && <Shown statistics={statistics.data} choose={change} />}
			</div>
		</div>
	);
}

function Choice({
	label,
	all,
	value,
	names,
	onChange,
}: {
	label: string;
	all: string;
	value: string;
	names: string[];
	onChange: (value: string) => void;
}) {
	return (
		<select
			aria-label={label}
			className="field w-auto max-w-48"
			value={value}
			onChange={(event) => onChange(event.target.value)}
		>
			<option value="">{all}</option>
			{[...new Set(value ? [...names, value] : names)].map((name) => (
				<option key={name}>{name}</option>
			))}
		</select>
	);
}

/** Live: who asked for something in the last five minutes. */
function Prompting({ people }: { people: string[] }) {
	return (
		<p role="status" className="flex items-center gap-2 text-sm" title="In the last five minutes">
			<span
				aria-hidden="true"
				className={`size-2 rounded-full ${people.length ? 'pulse bg-working' : 'bg-line-strong'}`}
			/>
			<span>
				<span className="font-semibold">{people.length}</span> {people.length === 1 ? 'person is' : 'people are'}{' '}
				prompting now
				{people.length > 0 && <span className="text-muted">: {people.join(', ')}</span>}
			</span>
		</p>
	);
}

function Shown({
	statistics,
	choose,
}: {
	statistics: Statistics;
	choose: (change: Record<string, string | null>) => void;
}) {
	const { funnel, buckets, time_to_merge: merge } = statistics;
	const days = useMemo(() => buckets.map((bucket) => bucket.start), [buckets]);
	const flow = useMemo<Series[]>(
		() => [
			{ label: 'Sessions', colour: '--line-strong', bars: true, values: buckets.map((one) => one.sessions) },
			{ label: 'Delivered', colour: '--working', values: buckets.map((one) => one.delivered) },
			{ label: 'Merged', colour: '--good', values: buckets.map((one) => one.merged) },
		],
		[buckets],
	);
	const cost = useMemo<Series[]>(
		() => [{ label: 'Dollars', colour: '--accent', bars: true, values: buckets.map((one) => one.cost_usd) }],
		[buckets],
	);
	if (funnel.sessions === 0 && buckets.every((one) => one.merged + one.delivered === 0)) {
		return (
			<p className="py-10 text-center text-sm text-muted">
				No session was made in this time.{' '}
				<Link to="/new" className="text-accent underline">
					Start one
				</Link>
			</p>
		);
	}
	const perMerged = statistics.cost_per_merged_usd;
	return (
		<>
			<dl className="grid grid-cols-2 gap-x-6 gap-y-4 md:grid-cols-5">
				<Figure name="Sessions" value={String(funnel.sessions)} more={`${funnel.done} done`} />
				<Figure
					name="Merged"
					value={String(funnel.merged)}
					more={`${share(funnel.merged, funnel.sessions)} of sessions`}
				/>
				<Figure
					name="Merged of opened"
					value={share(funnel.merged, funnel.opened)}
					more={`${plural(funnel.opened, 'pull request')}, ${funnel.closed} closed`}
				/>
				<Figure
					name="Cost per merged"
					value={perMerged == null ? 'none yet' : money(perMerged)}
					more={`${money(statistics.cost_usd)} in all`}
				/>
				<Figure
					name="Time to merge"
					value={merge.median_s == null ? 'none yet' : duration(merge.median_s * 1000)}
					more={merge.p90_s == null ? 'median' : `median; nine of ten within ${duration(merge.p90_s * 1000)}`}
				/>
			</dl>
			<Part
				title="From sessions to merged pull requests"
				said={`${plural(funnel.sessions, 'session')}, ${funnel.delivered} delivered, ${funnel.merged} merged`}
				chart={
					<Chart
						label="Sessions, deliveries and merges over time; the table has the numbers"
						days={days}
						series={flow}
						format={String}
					/>
				}
				table={
					<Table
						label="Sessions, deliveries and merges over time"
						heads={['From', 'Sessions', 'Delivered', 'Merged', 'Closed']}
						rows={buckets
							.toReversed()
							.map((one) => [day(one.start), one.sessions, one.delivered, one.merged, one.closed])}
					/>
				}
			/>
			<Part
				title="How far sessions came"
				said={`${share(funnel.merged, funnel.sessions)} of the sessions of this time are merged`}
				chart={<FunnelBars funnel={funnel} />}
				table={
					<Table
						label="How far sessions came"
						heads={['Came to', 'Sessions', 'Share']}
						rows={steps(funnel).map(([name, value]) => [name, value, share(value, funnel.sessions)])}
					/>
				}
			/>
			<Part
				title="What it cost"
				said={`${money(statistics.cost_usd)}${perMerged == null ? '' : `, ${money(perMerged)} for each merged pull request`}`}
				chart={
					<Chart
						label="Dollars over time; the table has the numbers"
						days={days}
						series={cost}
						least={0.1}
						format={(usd) => money(usd)}
					/>
				}
				table={
					<Table
						label="Dollars over time"
						heads={['From', 'Cost', 'Sessions']}
						rows={buckets.toReversed().map((one) => [day(one.start), money(one.cost_usd), one.sessions])}
					/>
				}
			/>
			<div className="grid gap-8 lg:grid-cols-3">
				<Parts
					title="By environment"
					parts={statistics.by_environment}
					choose={(environment) => choose({ environment })}
				/>
				<Parts title="By person" parts={statistics.by_person} choose={(person) => choose({ person })} />
				<Parts title="By model" parts={statistics.by_model} choose={(model) => choose({ model })} />
			</div>
			<p className="text-xs text-muted">
				Days are in UTC, {statistics.from} to {statistics.to}. A pull request that is still open counts as neither good
				nor bad.
			</p>
		</>
	);
}

function Figure({ name, value, more }: { name: string; value: string; more: string }) {
	return (
		<div>
			<dt className="heading">{name}</dt>
			<dd className="tabular text-xl font-semibold">
				{value}
				<span className="block text-xs font-normal text-muted">{more}</span>
			</dd>
		</div>
	);
}

function Part({
	title,
	said,
	chart,
	table,
}: {
	title: string;
	said: string;
	chart: React.ReactNode;
	table: React.ReactNode;
}) {
	return (
		<section aria-label={title}>
			<h2 className="font-semibold">{title}</h2>
			<p className="tabular mb-2 text-sm text-muted">{said}</p>
			<div className="grid gap-4 lg:grid-cols-[minmax(0,1fr)_340px]">
				{chart}
				{table}
			</div>
		</section>
	);
}

function Table({ label, heads, rows }: { label: string; heads: string[]; rows: (string | number)[][] }) {
	return (
		// biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable from the keyboard.
		<div role="group" aria-label={label} tabIndex={0} className="max-h-[200px] overflow-auto">
			<table className="tabular w-full text-right text-xs">
				<thead>
					<tr>
						{heads.map((head, at) => (
							<th
								key={head}
								scope="col"
								className={`sticky top-0 bg-background py-1 font-medium text-muted ${at === 0 ? 'text-left' : 'pl-3'}`}
							>
								{head}
							</th>
						))}
					</tr>
				</thead>
				<tbody>
					{rows.map((row, index) => (
						<tr key={index} className="border-t border-line">
							{row.map((cell, at) => (
								<td key={at} className={`py-1 ${at === 0 ? 'text-left' : 'pl-3'}`}>
									{cell}
								</td>
							))}
						</tr>
					))}
				</tbody>
			</table>
		</div>
	);
}

const steps = (funnel: Statistics['funnel']): [string, number][] => [
	['Made', funnel.sessions],
	['Done', funnel.done],
	['Delivered', funnel.delivered],
	['Opened', funnel.opened],
	['Merged', funnel.merged],
];

function FunnelBars({ funnel }: { funnel: Statistics['funnel'] }) {
	return (
		<div
			role="img"
			aria-label="How many sessions came how far; the table has the numbers"
			className="flex flex-col gap-2"
		>
			{steps(funnel).map(([name, value]) => (
				<div key={name} className="flex items-center gap-3 text-sm">
					<span className="w-20 shrink-0 text-muted">{name}</span>
					<span className="h-6 min-w-0 flex-1 rounded-sm bg-sunken">
						<span
							className={`block h-full rounded-sm ${name === 'Merged' ? 'bg-good' : 'bg-accent'}`}
							style={{ width: `${funnel.sessions ? (value / funnel.sessions) * 100 : 0}%` }}
						/>
					</span>
					<span className="tabular w-12 text-right">{value}</span>
				</div>
			))}
		</div>
	);
}

function Parts({ title, parts, choose }: { title: string; parts: StatisticsPart[]; choose: (name: string) => void }) {
	const most = Math.max(1, ...parts.map((part) => part.sessions));
	return (
		<section aria-label={title}>
			<h2 className="mb-1 font-semibold">{title}</h2>
			{parts.length === 0 && <p className="text-sm text-muted">Nothing yet</p>}
			<table className="tabular w-full text-xs">
				<thead className="text-muted">
					<tr>
						<th scope="col" className="py-1 text-left font-medium">
							Name
						</th>
						<th scope="col" className="py-1 pl-3 text-right font-medium">
							Sessions
						</th>
						<th scope="col" className="py-1 pl-3 text-right font-medium">
							Merged
						</th>
						<th scope="col" className="py-1 pl-3 text-right font-medium">
							Cost
						</th>
					</tr>
				</thead>
				<tbody>
					{parts.map((part) => (
						<tr key={part.name} className="border-t border-line">
							<th scope="row" className="w-full max-w-0 py-1 text-left font-normal">
								<button
									type="button"
									className="target block w-full truncate text-left text-sm hover:underline"
									onClick={() => choose(part.name)}
								>
									{part.name || 'nobody'}
								</button>
								<span aria-hidden="true" className="block h-1 rounded-full bg-sunken">
									<span
										className="block h-full rounded-full bg-line-strong"
										style={{ width: `${(part.sessions / most) * 100}%` }}
									/>
								</span>
							</th>
							<td className="pl-3 text-right">{part.sessions}</td>
							<td className="pl-3 text-right">{part.merged}</td>
							<td className="pl-3 text-right">{money(part.cost_usd)}</td>
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
}
