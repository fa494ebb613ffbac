// The changed files as a tree, with a search; folders with nothing else in them are one row.
import { useMemo, useState } from 'react';
import { VList } from 'virtua';
import type { FilePatch } from '../../../diff/parse';
import { visibleName } from '../../../text/hidden';
import { plural } from '../../../ui/format';
import { Icon } from '../../../ui/icons';

export interface Branch {
	name: string;
	path: string;
	branches: Branch[];
	files: FilePatch[];
}

export function treeOf(files: FilePatch[]): Branch {
	const root: Branch = { name: '', path: '', branches: [], files: [] };
	const known = new Map<string, Branch>([['', root]]);
	const branchOf = (path: string): Branch => {
		const there = known.get(path);
		if (there) return there;
		const cut = path.lastIndexOf('/');
		const made = { name: path.slice(cut + 1), path, branches: [], files: [] };
		known.set(path, made);
		branchOf(path.slice(0, Math.max(cut, 0))).branches.push(made);
		return made;
	};
	for (const file of files) branchOf(file.path.slice(0, Math.max(file.path.lastIndexOf('/'), 0))).files.push(file);
	return joined(root);
}

function joined(branch: Branch): Branch {
	let { name, path, branches, files } = branch;
	while (name && branches.length === 1 && files.length === 0) {
		const only = branches[0];
		if (!only) break;
		name = `${name}/${only.name}`;
		({ path, branches, files } = only);
	}
	return { name, path, branches: branches.map(joined), files };
}

type Row = { depth: number; branch: Branch; file?: never } | { depth: number; file: FilePatch; branch?: never };

/** The tree from top to bottom: folders before what is in them, files after the folders beside them. */
function rowsOf(root: Branch): Row[] {
	const rows: Row[] = [];
	const put = (branch: Branch, depth: number) => {
		for (const inner of branch.branches) {
			rows.push({ depth, branch: inner });
			put(inner, depth + 1);
		}
		for (const file of branch.files) rows.push({ depth, file });
	};
	put(root, 0);
	return rows;
}

export function Tree({
	files,
	current,
	viewed,
	comments,
	open,
}: {
	files: FilePatch[];
	current: string | null;
	viewed: (file: FilePatch) => boolean;
	comments: (path: string) => number;
	open: (file: FilePatch) => void;
}) {
	const [text, setText] = useState('');
	const rows = useMemo(() => {
		const words = text.toLowerCase().split(/\s+/).filter(Boolean);
		return rowsOf(treeOf(files.filter((file) => words.every((word) => file.path.toLowerCase().includes(word)))));
	}, [files, text]);
	const done = files.filter(viewed).length;
	return (
		<nav aria-label="Changed files" className="flex h-full min-h-0 flex-col">
			<div className="p-2 pb-1">
				<input
					type="search"
					className="field"
					aria-label="Search changed files"
					placeholder={`${plural(files.length, 'file')}, ${done.toLocaleString('en-GB')} viewed`}
					value={text}
					onChange={(event) => setText(event.target.value)}
					onKeyDown={(event) => event.key === 'Escape' && event.currentTarget.blur()}
				/>
			</div>
			{rows.length === 0 && <p className="px-3 py-2 text-sm text-muted">No changed file has this in its name.</p>}
			{/* Only what is in view exists: there may be ten thousand. */}
			<VList data={rows} bufferSize={400} className="min-h-0 flex-1 px-1 pb-2">
				{(row) =>
					row.file ? (
						<FileRow
							key={row.file.path}
							file={row.file}
							depth={row.depth}
							here={row.file.path === current}
							seen={viewed(row.file)}
							said={comments(row.file.path)}
							open={open}
						/>
					) : (
						<p
							key={`${row.branch.path}/`}
							className="code flex min-h-6 items-center gap-1.5 text-muted"
							style={{ paddingLeft: 8 + row.depth * 12 }}
							title={visibleName(row.branch.path)}
						>
							<Icon name="folder" size={12} /> <span className="truncate">{visibleName(row.branch.name)}</span>
						</p>
					)
				}
			</VList>
		</nav>
	);
}

function FileRow({
	file,
	depth,
	here,
	seen,
	said,
	open,
}: {
	file: FilePatch;
	depth: number;
	here: boolean;
	seen: boolean;
	said: number;
	open: (file: FilePatch) => void;
}) {
	return (
		<button
			type="button"
			aria-current={here ? 'true' : undefined}
			onClick={() => open(file)}
			title={visibleName(file.path)}
			className={`target code flex min-h-7 w-full items-center gap-1.5 rounded-md pr-1 text-left hover:bg-sunken ${here ? 'bg-accent-soft' : ''}`}
			style={{ paddingLeft: 8 + depth * 12 }}
		>
			<Icon name={seen ? 'check' : 'file'} size={12} className={seen ? 'text-good' : 'text-muted'} />
			<span
				className={`min-w-0 flex-1 truncate ${seen ? 'text-muted' : ''} ${file.status === 'deleted' ? 'line-through' : ''}`}
			>
				{visibleName(file.path.split('/').at(-1) ?? '')}
				{seen && <span className="sr-only">, viewed</span>}
				<span className="sr-only">, {file.status}</span>
			</span>
			{said > 0 && (
				<span className="rounded-full bg-accent px-1.5 text-accent-text">
					{said}
					<span className="sr-only"> {said === 1 ? 'comment' : 'comments'}</span>
				</span>
			)}
			<span className="tabular text-good">{file.insertions ? `+${file.insertions}` : ''}</span>
			<span className="tabular text-bad">{file.deletions ? `−${file.deletions}` : ''}</span>
		</button>
	);
}
