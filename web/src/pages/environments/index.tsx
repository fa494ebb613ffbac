// Environments: what sessions start from. The list, and one of them with its image, recipe, network, secrets and memory.
import { useQuery } from '@tanstack/react-query';
import { get } from '../../api/client';
import { useEnvironments } from '../../api/queries';
import type { ImageStatus, NamedEnvironment } from '../../api/types';
import { part } from '../../shell/part';
import { agoWords, plural } from '../../ui/format';
import { Icon, type IconName } from '../../ui/icons';
import { useNow } from '../../ui/now';
import { Button, Dialog, Empty, Failure, Tabs, Waiting } from '../../ui/parts';
import { go, Link, paths, useSearch } from '../../ui/router';
import { Image } from './image';
import { Memory } from './memory';
import { Network } from './network';
import { Secrets } from './secrets';

const Recipe = part(() => import('./recipe'));
const NewEnvironment = part(
	() => import('./new'),
	({ close, children }) => (
		<Dialog open onClose={close} label="New environment">
			{children}
		</Dialog>
	),
);

const tabs = ['image', 'recipe', 'network', 'secrets', 'memory'] as const;
const words: Record<(typeof tabs)[number], string> = {
	image: 'Image',
	recipe: 'Recipe',
	network: 'Network',
	secrets: 'Secrets',
	memory: 'Memory',
};

export default function Environments({ name, tab }: { name?: string; tab?: string }) {
	return name === undefined ? (
		<List />
	) : (
		<One key={name} name={name} tab={tabs.find((one) => one === tab) ?? 'image'} />
	);
}

export function useImage(name: string) {
	return useQuery({
		queryKey: ['image', name],
		queryFn: ({ signal }) => get<ImageStatus>(`/environments/${encodeURIComponent(name)}/image`, signal),
		refetchInterval: (query) => (query.state.data?.state === 'building' ? 1_000 : 15_000),
	});
}

const looks: Record<string, { icon: IconName; colour: string; word: string }> = {
	none: { icon: 'circle', colour: 'text-off', word: 'no image yet' },
	building: { icon: 'half', colour: 'text-working', word: 'being built' },
	ready: { icon: 'check', colour: 'text-good', word: 'ready' },
	failed: { icon: 'cross', colour: 'text-bad', word: 'failed' },
	outdated: { icon: 'warning', colour: 'text-needs', word: 'out of date' },
};

export function ImageMark({ image }: { image: ImageStatus }) {
	const state = image.state === 'ready' && image.outdated ? 'outdated' : image.state;
	const look = looks[state] ?? { icon: 'circle' as const, colour: 'text-off', word: state };
	return (
		<span className={`inline-flex items-center gap-1 whitespace-nowrap ${look.colour}`}>
			<Icon name={look.icon} size={14} /> {look.word}
		</span>
	);
}

function List() {
	const environments = useEnvironments();
	const [search, change] = useSearch();
	const making = search.get('new') === '1';
	const setMaking = (on: boolean) => change({ new: on ? '1' : null });
	return (
		<div className="flex min-h-0 flex-1 flex-col">
			<header className="flex items-center gap-2 border-b border-line px-4 py-2">
				<h1 className="flex-1 font-semibold">Environments</h1>
				<Button icon="plus" onClick={() => setMaking(true)}>
					New environment
				</Button>
			</header>
			<div className="min-h-0 flex-1 overflow-y-auto">
				{environments.error && (
					<Failure error={environments.error} again={() => environments.refetch()} className="m-4" />
				)}
				{environments.isPending && <Waiting>Fetching the environments</Waiting>}
				{environments.data?.length === 0 && (
					<Empty title="No environment yet">
						An environment says which repository an agent works on, how its sandbox is prepared and how its work is
						checked.
						<span className="mt-3 block">
							<Button kind="primary" icon="plus" onClick={() => setMaking(true)}>
								Make one
							</Button>
						</span>
					</Empty>
				)}
				<ul>
					{environments.data?.map((one) => (
						<li key={one.name}>
							<Row environment={one} />
						</li>
					))}
				</ul>
			</div>
			{making && <NewEnvironment close={() => setMaking(false)} />}
		</div>
	);
}

function Row({ environment }: { environment: NamedEnvironment }) {
	const image = useImage(environment.name);
	const now = useNow();
	const repo = environment.repos?.[0];
	return (
		<Link
			to={paths.environment(environment.name)}
			className="grid min-h-11 grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 border-b border-line px-4 py-2 hover:bg-sunken"
		>
			<span className="truncate font-medium">{environment.name}</span>
			<span className="tabular flex items-center gap-4 text-xs">
				{image.data?.current && (
					<span className="text-muted max-md:hidden">built {agoWords(image.data.current.built_at, now)}</span>
				)}
				{image.data && <ImageMark image={image.data} />}
			</span>
			<span className="code col-span-2 truncate text-muted">
				{repo?.url ?? 'no repository'}
				{repo?.branch && ` · ${repo.branch}`}
				{` · ${plural(environment.checks?.length ?? 0, 'check')}`}
				{environment.model && ` · ${environment.model}`}
			</span>
		</Link>
	);
}

function One({ name, tab }: { name: string; tab: (typeof tabs)[number] }) {
	const environments = useEnvironments();
	const environment = environments.data?.find((one) => one.name === name);
	// What was fetched before stays: somebody may be writing in it.
	if (environments.error && !environments.data)
		return <Failure error={environments.error} again={() => environments.refetch()} className="m-4" />;
	if (!environments.data) return <Waiting>Fetching the environment</Waiting>;
	if (!environment) {
		return (
			<Empty title={`There is no environment ${name}`}>
				<Link to={paths.environments()} className="text-accent underline">
					All environments
				</Link>
			</Empty>
		);
	}
	return (
		<div className="flex min-h-0 flex-1 flex-col">
			<header className="shrink-0 border-b border-line">
				<div className="flex min-h-11 items-center gap-3 px-4 max-md:py-1">
					<Link to={paths.environments()} className="text-sm text-muted hover:underline max-md:hidden">
						Environments
					</Link>
					<Icon name="right" size={10} className="text-muted max-md:hidden" />
					<h1 className="min-w-0 flex-1 truncate font-semibold">{name}</h1>
					<span className="text-xs text-muted max-md:hidden">
						{environment.source === 'config' ? 'written in the configuration file' : 'made here'}
					</span>
					<Button icon="plus" onClick={() => go(`${paths.newSession()}?environment=${encodeURIComponent(name)}`)}>
						New session
					</Button>
				</div>
				<Tabs
					label="Parts of the environment"
					current={tab}
					tabs={tabs.map((one) => ({
						key: one,
						label: words[one],
						to: paths.environment(name, one === 'image' ? '' : one),
					}))}
				/>
			</header>
			<div className="min-h-0 flex-1 overflow-y-auto">
				<div className="mx-auto max-w-[900px] p-4">
					{tab === 'image' && <Image environment={environment} />}
					{tab === 'recipe' && <Recipe environment={environment} />}
					{tab === 'network' && <Network environment={environment} />}
					{tab === 'secrets' && <Secrets environment={environment} />}
					{tab === 'memory' && <Memory environment={environment} />}
				</div>
			</div>
		</div>
	);
}
