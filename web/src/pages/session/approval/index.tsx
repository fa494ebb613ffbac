// What a person must decide: what is asked, with the change in view, and the answer under the thumb.
import { useEffect, useState } from 'react';
import { send } from '../../../api/client';
import type { AskedCall, DiffSummary } from '../../../api/types';
import type { ApprovalView } from '../../../live/state';
import { type SessionStore, useLive } from '../../../live/store';
import { visible, visibleName } from '../../../text/hidden';
import { keepDraft, useDraft, useDraftOf } from '../../../ui/draft';
import { duration, plural, time } from '../../../ui/format';
import { Icon } from '../../../ui/icons';
import { useNow } from '../../../ui/now';
import { Button } from '../../../ui/parts';
import { Link, paths } from '../../../ui/router';
import { complain } from '../../../ui/toast';
import { Call, type Draft, draftOf, EditCall, inputOf } from './call';
import { Outgoing } from './outgoing';

export function Approval({ id, store }: { id: string; store: SessionStore }) {
	const view = useLive(store, ({ state }) => state.approvals.get(id));
	const waits = useLive(store, ({ state }) => state.waiting === id);
	if (!view) return null;
	if (view.resolved || !waits) return <Decided view={view} />;
	return <Card view={view} store={store} />;
}

/** What is written until it is decided: a word to the agent or an answer, and the call as it is changed. */
const wordOf = (approval: string) => `approval.${approval}`;
const changeOf = (approval: string) => `approval.${approval}.call`;

function Decided({ view }: { view: ApprovalView }) {
	const { resolved, id } = view;
	// Somebody else may have decided while one was writing.
	useEffect(() => {
		if (!resolved) return;
		keepDraft(wordOf(id), '');
		keepDraft(changeOf(id), '');
	}, [resolved, id]);
	const word = !resolved
		? 'no longer asked'
		: view.gate === 'question'
			? 'answered'
			: resolved.approved
				? resolved.changed
					? 'changed and approved'
					: 'approved'
				: 'rejected';
	return (
		<p className="flex items-start gap-2 py-1 text-sm text-muted">
			<Icon
				name={resolved?.approved ? 'check' : 'cross'}
				size={14}
				className={`mt-[3px] ${resolved?.approved ? 'text-good' : ''}`}
			/>
			<span className="min-w-0 break-words">
				{visible(view.question.split('\n', 1)[0] ?? '')} <span className="text-text">{word}</span>
				{resolved && ` by ${resolved.by} at ${time(resolved.at)}`}
				{resolved?.all && ', for the rest of the session'}
				{resolved?.comment && `: ${visible(resolved.comment)}`}
			</span>
		</p>
	);
}

function Card({ view, store }: { view: ApprovalView; store: SessionStore }) {
	const [comment, setComment] = useDraft(wordOf(view.id));
	const [busy, setBusy] = useState(false);
	const [draft, setDraft] = useDraftOf<Draft>(changeOf(view.id));
	// Who comes back to what was begun is not pulled away from where one is.
	const [began, setBegan] = useState(false);
	const now = useNow();
	const { call, diff, gate } = view;
	const question = gate === 'question';
	const changed = call && draft ? inputOf(call.input, draft) : null;
	const decide = async (approved: boolean, more: { all?: boolean; comment?: string } = {}) => {
		setBusy(true);
		const said = more.comment ?? comment.trim();
		try {
			await send('POST', `/sessions/${store.id}/approvals/${view.id}`, {
				approved,
				...(said ? { comment: said } : {}),
				...(more.all ? { all: true } : {}),
				...(approved && changed && 'input' in changed ? { input: changed.input } : {}),
			});
		} catch (error) {
			complain(error);
			setBusy(false);
		}
	};
	const all = call && (call.after_every || (call.kind?.length ?? 0) > 0);
	return (
		<section
			aria-label="Needs your decision"
			className="my-3 overflow-hidden rounded-lg border border-needs bg-surface"
		>
			<header className="flex items-start gap-2 bg-needs-soft px-3 py-2">
				<Icon name="hand" className="mt-0.5 text-needs" />
				<div className="min-w-0 flex-1">
					<p className="font-medium break-words whitespace-pre-wrap">{visible(view.question)}</p>
					{call?.why && !view.question.includes(call.why) && !question && (
						<p className="text-xs break-words text-muted">{visible(call.why)}</p>
					)}
				</div>
				<span className="tabular shrink-0 text-xs text-muted">waits {duration(now - Date.parse(view.since))}</span>
			</header>
			{call && !question && (
				<div className="border-t border-line">
					{draft ? <EditCall call={call} draft={draft} change={setDraft} focus={began} /> : <Call call={call} />}
				</div>
			)}
			{gate === 'delivery' && <Outgoing store={store} approval={view.id} />}
			{diff && diff.count > 0 && <SoFar diff={diff} session={store.id} />}
			{changed && 'wrong' in changed && (
				<p role="alert" className="px-3 pt-2 text-sm text-bad">
					{changed.wrong}
				</p>
			)}
			{all && !draft && (
				<p className="px-3 pt-2 text-xs text-muted">
					All like it, for the rest of the session:{' '}
					{call.after_every ? 'whatever comes, without a question after every few actions' : visible(kindOf(call))}
				</p>
			)}
			<div className="flex flex-wrap items-center gap-2 border-t border-line p-3">
				{question &&
					call?.options?.map((option) => (
						<Button
							key={option}
							data-approve
							busy={busy}
							className="h-auto! min-h-8 max-w-full py-1.5 text-left break-words whitespace-normal!"
							onClick={() => decide(true, { comment: option })}
						>
							{visible(option)}
						</Button>
					))}
				<input
					// Where there is nothing to choose from, this is the answer.
					data-approve={question && !call?.options?.length ? true : undefined}
					className="field min-w-40 flex-1 max-md:min-w-full"
					aria-label={question ? 'Your answer' : 'What the agent is told with it'}
					placeholder={question ? 'Another answer' : 'A word to the agent (optional)'}
					value={comment}
					onChange={(event) => setComment(event.target.value)}
					onKeyDown={(event) => {
						if (event.key === 'Enter' && question && comment.trim()) decide(true);
					}}
				/>
				{question ? (
					<Button kind="primary" busy={busy} disabled={!comment.trim()} onClick={() => decide(true)}>
						Answer
					</Button>
				) : (
					<>
						<Button
							kind="good"
							icon="check"
							busy={busy}
							disabled={changed !== null && 'wrong' in changed}
							data-approve
							className="max-md:shrink-0 max-md:grow"
							onClick={() => decide(true)}
						>
							{draft ? 'Approve as changed' : 'Approve'}
						</Button>
						{gate === 'call' && call && Object.keys(draftOf(call.input)).length > 0 && (
							<Button
								icon={draft ? 'retry' : 'edit'}
								disabled={busy}
								onClick={() => {
									setBegan(true);
									setDraft(draft ? null : draftOf(call.input));
								}}
							>
								{draft ? 'As it was' : 'Change it'}
							</Button>
						)}
						{all && !draft && (
							<Button busy={busy} onClick={() => decide(true, { all: true })}>
								Approve all like it
							</Button>
						)}
						<Button kind="danger" busy={busy} onClick={() => decide(false)}>
							Reject
						</Button>
					</>
				)}
			</div>
		</section>
	);
}

/** What an approval of all like it allows, in words: `write src/**`, `the command npm *`. */
function kindOf(call: AskedCall): string {
	const words = call.kind?.map(({ tool, command, path, host }) =>
		[tool, command && `the command ${command}`, path, host && `connections to ${host}`].filter(Boolean).join(' '),
	);
	return words?.join(', ') ?? '';
}

/** What the session changed before the call that waits. */
function SoFar({ diff, session }: { diff: DiffSummary; session: string }) {
	return (
		<div className="border-t border-line px-3 py-2 text-sm">
			<p className="tabular mb-1 text-xs text-muted">
				So far {plural(diff.count, 'file')} <span className="text-good">+{diff.insertions}</span>{' '}
				<span className="text-bad">−{diff.deletions}</span>
			</p>
			<ul>
				{diff.files.slice(0, 8).map((file) => (
					<li key={file.path} className="flex items-center gap-3">
						<Link
							to={paths.line(session, file.path)}
							className="target inline-flex min-w-0 flex-1 items-center text-accent hover:underline"
						>
							<span className="code truncate">{visibleName(file.path)}</span>
						</Link>
						<span className="tabular text-xs">
							<span className="text-good">+{file.insertions}</span> <span className="text-bad">−{file.deletions}</span>
						</span>
					</li>
				))}
			</ul>
			<Link
				to={paths.session(session, 'changes')}
				className="target inline-flex items-center text-xs text-accent underline"
			>
				All changes
			</Link>
		</div>
	);
}
