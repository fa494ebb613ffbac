// The files of the workspace, to be looked at.
import { useQuery } from '@tanstack/react-query';
import { ask, get, isMissing, query } from '../../api/client';
import type { FileList } from '../../api/types';
import { type SessionStore, useLive } from '../../live/store';
import { FileText } from '../../text/file-text';
import { visibleName } from '../../text/hidden';
import { bytes } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Empty, Failure, Waiting } from '../../ui/parts';
import { Link, paths, useSearch } from '../../ui/router';

const at = (id: string, values: Record<string, string>) => paths.session(id, 'files') + query(values);

export default function Files({ store }: { store: SessionStore }) {
	const [search] = useSearch();
	const path = search.get('path') ?? '';
	const file = search.get('file');
	const steps = useLive(store, ({ state }) => state.turns.at(-1)?.steps ?? 0);
	const list = useQuery({
		queryKey: ['files', store.id, path, steps],
		queryFn: ({ signal }) => get<FileList>(`/sessions/${store.id}/files${query({ path })}`, signal),
		placeholderData: (before) => before,
	});
	if (isMissing(list.error))
		return <Empty title="This server does not show files">Its next version does. The terminal has them all.</Empty>;
	if (list.error) return <Failure error={list.error} again={() => list.refetch()} className="m-4" />;
	if (!list.data) return <Waiting>Reading the directory</Waiting>;
	const parts = path.split('/').filter(Boolean);
	const inside = (name: string) => (path ? `${path}/${name}` : name);
	return (
		<div className="flex min-h-0 flex-1 max-md:flex-col">
			<nav
				aria-label="Files"
				className="w-64 shrink-0 overflow-y-auto border-r border-line p-2 max-md:max-h-[40%] max-md:w-full max-md:border-b"
			>
				<p className="code flex flex-wrap items-center gap-1 px-2 py-1 text-muted">
					<Link to={at(store.id, {})} className="target inline-flex items-center hover:underline">
						workspace
					</Link>
					{parts.map((part, index) => (
						<span key={index} className="inline-flex items-center">
							/{' '}
							<Link
								to={at(store.id, { path: parts.slice(0, index + 1).join('/') })}
								className="target inline-flex items-center justify-center hover:underline"
							>
								{visibleName(part)}
							</Link>
						</span>
					))}
				</p>
				<ul>
					{list.data.entries.map((entry) => (
						<li key={entry.name}>
							<Link
								to={
									entry.kind === 'directory'
										? at(store.id, { path: inside(entry.name) })
										: at(store.id, { path, file: inside(entry.name) })
								}
								className={`target code flex min-h-7 items-center gap-2 rounded-md px-2 hover:bg-sunken ${file === inside(entry.name) ? 'bg-accent-soft' : ''}`}
							>
								<Icon name={entry.kind === 'directory' ? 'folder' : 'file'} size={14} className="text-muted" />
								<span className="min-w-0 flex-1 truncate">{visibleName(entry.name)}</span>
								{entry.size != null && entry.kind === 'file' && (
									<span className="tabular text-muted">{bytes(entry.size)}</span>
								)}
							</Link>
						</li>
					))}
				</ul>
				{list.data.truncated && (
					<p className="px-2 py-1 text-xs text-muted">There are more; the terminal has them all.</p>
				)}
			</nav>
			<div className="flex min-h-0 min-w-0 flex-1 flex-col">
				{file ? (
					<Content id={store.id} path={file} line={Number(search.get('line') ?? 0)} steps={steps} />
				) : (
					<Empty title="Choose a file" />
				)}
			</div>
		</div>
	);
}

type Shown = { text: string } | { blob: string; image: boolean; size: number };

function Content({ id, path, line, steps }: { id: string; path: string; line: number; steps: number }) {
	const content = useQuery<Shown>({
		queryKey: ['file', id, path, steps],
		// While the agent works, a file is read again after each step; what was there before stays until then.
		placeholderData: (before, query) => (query?.queryKey[2] === path ? before : undefined),
		queryFn: async ({ signal }) => {
			const response = await ask('GET', `/sessions/${id}/file${query({ path })}`, { signal, accept: '*/*' });
			const kind = response.headers.get('content-type') ?? '';
			if (kind.startsWith('text/')) return { text: await response.text() };
			const blob = await response.blob();
			return { blob: URL.createObjectURL(blob), image: kind.startsWith('image/'), size: blob.size };
		},
	});
	if (content.error) return <Failure error={content.error} again={() => content.refetch()} className="m-4" />;
	if (!content.data) return <Waiting>Reading the file</Waiting>;
	return (
		<>
			<h2 className="code shrink-0 border-b border-line px-4 py-1.5 font-semibold break-words">{visibleName(path)}</h2>
			{'text' in content.data ? (
				<div className="min-h-0 flex-1">
					<FileText text={content.data.text} wanted={line} label={visibleName(path)} />
				</div>
			) : content.data.image ? (
				<img src={content.data.blob} alt={visibleName(path)} className="m-4 max-w-full self-start border border-line" />
			) : (
				<p className="p-4 text-sm text-muted">
					A binary file of {bytes(content.data.size)}.{' '}
					<a href={content.data.blob} download={path.split('/').at(-1)} className="text-accent underline">
						Save it
					</a>
				</p>
			)}
		</>
	);
}
