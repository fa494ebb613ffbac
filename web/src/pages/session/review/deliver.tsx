// Before work goes out: where it goes, and the pull request as others will read it.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiError, get, send } from '../../../api/client';
import { queries } from '../../../api/queries';
import type { DeliveryPreview } from '../../../api/types';
import { type SessionStore, useLive } from '../../../live/store';
import { visible } from '../../../text/hidden';
import { Markdown } from '../../../text/markdown';
import { Icon } from '../../../ui/icons';
import { Button, Dialog, Failure, Waiting } from '../../../ui/parts';
import { useSearch } from '../../../ui/router';
import { say } from '../../../ui/toast';

export function Deliver({ store }: { store: SessionStore }) {
	const delivery = useLive(store, ({ state }) => state.delivery);
	const deliveries = useLive(store, ({ state }) => state.deliveries);
	const all = [...deliveries.values()];
	const moving = all.some(({ state }) => state === 'intended' || state === 'opening');
	const linked = all.filter(({ url }) => url && /^https?:/.test(url));
	const link = linked.length > 0;
	const [asked, setAsked] = useState(false);
	// An address can ask for it, so that the palette shows what goes out before it does.
	const [search, change] = useSearch();
	const open = asked || search.get('deliver') === '1';
	const close = () => {
		setAsked(false);
		change({ deliver: null });
	};
	return (
		<span className="inline-flex flex-wrap items-center gap-3">
			{link
				? linked.map(({ repository, url, number, review }) => (
						<a
							key={repository ?? ''}
							href={url ?? undefined}
							target="_blank"
							rel="noopener noreferrer"
							className="target inline-flex items-center gap-1 text-sm text-accent underline"
						>
							{repository ? `${repository}: pull request` : 'Pull request'} {number ? `#${number}` : ''}
							{review && review.state !== 'open' && ` is ${review.state}`} <Icon name="out" size={12} />
						</a>
					))
				: delivery?.state === 'pushed' && (
						<span className="inline-flex items-center gap-1 text-sm text-good">
							<Icon name="ship" size={14} />
							<span className="max-w-52 truncate max-md:hidden" title={visible(delivery.branch)}>
								{visible(delivery.branch)}
							</span>
							<span>is pushed</span>
						</span>
					)}
			<Button
				kind={link || delivery?.state === 'pushed' ? 'plain' : 'primary'}
				icon="ship"
				busy={moving}
				onClick={() => setAsked(true)}
			>
				{moving ? 'Delivering' : link || delivery?.state === 'pushed' ? 'Delivery' : 'Deliver'}
			</Button>
			{open && <Preview store={store} close={close} />}
		</span>
	);
}

/** What becomes of the pull request: one that is open gets what is new. */
function goal(delivery: DeliveryPreview['delivery']): string {
	const review = delivery?.review?.state;
	if (!delivery?.number || (review && review !== 'open')) return 'Open a pull request';
	return `Update pull request #${delivery.number}`;
}

function Preview({ store, close }: { store: SessionStore; close: () => void }) {
	const [busy, setBusy] = useState(false);
	const [error, setError] = useState<unknown>(null);
	const preview = useQuery({
		queryKey: ['delivery', store.id],
		queryFn: ({ signal }) => get<DeliveryPreview>(`/sessions/${store.id}/delivery`, signal),
		staleTime: 0,
	});
	const deliver = async (anyway: boolean) => {
		setBusy(true);
		setError(null);
		try {
			await send('POST', `/sessions/${store.id}/deliver`, anyway ? { allow_secrets: true } : {});
			queries.invalidateQueries({ queryKey: ['delivery', store.id] });
			say('The branch is delivered');
			close();
		} catch (failure) {
			setError(failure);
		} finally {
			setBusy(false);
		}
	};
	const secret =
		error instanceof ApiError && /looks like a secret/.test(`${error.problem.title} ${error.problem.hint ?? ''}`);
	const { data } = preview;
	return (
		<Dialog open onClose={close} label="Delivery" className="w-[min(720px,calc(100vw-24px))]">
			<div className="flex flex-col gap-3 p-4">
				<h2 className="text-lg font-semibold">
					{data?.pull_request === false ? 'Push the branch' : goal(data?.delivery)}
				</h2>
				{preview.error && <Failure error={preview.error} again={() => preview.refetch()} />}
				{preview.isPending && <Waiting>Putting the pull request together</Waiting>}
				{data && (
					<>
						<dl className="grid grid-cols-[80px_minmax(0,1fr)] gap-y-1 text-sm">
							<dt className="text-muted">Branch</dt>
							<dd className="code break-words">
								{data.branch || 'has no name yet'} into {data.base || 'the default branch'}
							</dd>
							<dt className="text-muted">Where</dt>
							<dd className="code break-words">{data.remote}</dd>
							{data.commit && (
								<>
									<dt className="text-muted">Commit</dt>
									<dd className="code">{data.commit.slice(0, 12)}</dd>
								</>
							)}
						</dl>
						{!data.pull_request && (
							<p className="text-sm text-muted">
								No forge is configured for this repository, so the branch is pushed and no pull request is opened. This
								is what one would say:
							</p>
						)}
						<article aria-label="The pull request" className="rounded-md border border-line">
							<h3 className="border-b border-line px-4 py-2 font-semibold break-words">{visible(data.title)}</h3>
							{/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable from the keyboard. */}
							<div role="group" aria-label="Its text" tabIndex={0} className="max-h-[40vh] overflow-y-auto px-4 py-3">
								<Markdown text={data.body} />
							</div>
						</article>
						{data.problem && <Failure error={new ApiError(data.problem)} />}
						{Boolean(error) && <Failure error={error} />}
					</>
				)}
				<div className="flex flex-wrap justify-end gap-2">
					<Button kind="quiet" onClick={close}>
						Not yet
					</Button>
					{secret && (
						<Button kind="danger" busy={busy} onClick={() => deliver(true)}>
							I looked: it is no secret
						</Button>
					)}
					<Button
						kind="primary"
						icon="ship"
						busy={busy}
						disabled={!data || Boolean(data.problem)}
						onClick={() => deliver(false)}
					>
						{busy ? 'Delivering' : data?.delivery ? 'Deliver again' : 'Deliver'}
					</Button>
				</div>
			</div>
		</Dialog>
	);
}
