// A sandbox is made ready while somebody writes: asked for once, looked at until there is one, and said as it is.
import { useEffect, useState } from 'react';
import { get, send } from '../../api/client';
import type { ImageStatus, WarmStatus } from '../../api/types';
import { shortDuration } from '../../ui/format';
import { useNowText } from '../../ui/now';

export type Warm =
	| { state: 'none' | 'asked' | 'ready' | 'starting' | 'cold' }
	| { state: 'building'; what: string; since: number };

/** How often it is looked at while one waits. */
const PACE = 1_500;
/** At each how many looks it is asked for again, so that it is kept. */
const ASK_EVERY = 4;
/** How long it is looked at: a sandbox that nobody claims is let go after some minutes. */
const LONGEST = 15 * 60_000;

export function useWarm(environment: string): Warm {
	const [warm, setWarm] = useState<Warm>({ state: 'none' });
	useEffect(() => {
		setWarm({ state: environment ? 'asked' : 'none' });
		if (!environment) return;
		const path = `/environments/${encodeURIComponent(environment)}`;
		const leave = new AbortController();
		let timer: ReturnType<typeof setTimeout> | undefined;
		const until = Date.now() + LONGEST;
		let looks = 0;
		let pool: WarmStatus = { ready: 0, starting: 0 };
		let building = false;
		const look = async () => {
			try {
				if (looks++ % ASK_EVERY === 0) pool = await send<WarmStatus>('POST', `${path}/warm`, {});
				const image = await get<ImageStatus>(`${path}/image`, leave.signal);
				// What was asked for while there was no image to start from is asked for again once there is one.
				if (building && image.state !== 'building') looks = 0;
				building = image.state === 'building';
				if (leave.signal.aborted) return;
				setWarm((before) => warmth({ ...pool, ready: image.warm ?? pool.ready }, image, before));
			} catch {
				if (leave.signal.aborted) return;
				// The session then starts without it, only later.
				setWarm({ state: 'cold' });
			}
			if (Date.now() < until) timer = setTimeout(look, PACE);
		};
		look();
		return () => {
			leave.abort();
			clearTimeout(timer);
		};
	}, [environment]);
	return warm;
}

/** What there is, from what the server says of the pool and of the image that sandboxes start from. */
export function warmth(pool: WarmStatus, image: ImageStatus, before: Warm): Warm {
	if (pool.ready > 0) return { state: 'ready' };
	if (pool.starting > 0) return { state: 'starting' };
	if (image.state === 'building') {
		const { steps = [] } = image;
		const at = steps.findIndex((step) => step.state === 'running');
		const step = steps[at];
		const line = step?.title.trim().split('\n', 1)[0] ?? '';
		const what = step ? `step ${at + 1} of ${steps.length}, ${line}` : '';
		return { state: 'building', what, since: before.state === 'building' ? before.since : Date.now() };
	}
	return { state: 'cold' };
}

export function Warmth({ warm }: { warm: Warm }) {
	switch (warm.state) {
		case 'none':
			return null;
		case 'asked':
			return <>Looking for a sandbox</>;
		case 'starting':
			return <>A sandbox is starting</>;
		case 'ready':
			return <span className="text-good">Sandbox ready</span>;
		case 'building':
			return <Building what={warm.what} since={warm.since} />;
		case 'cold':
			return <>A sandbox is made when the session starts</>;
	}
}

function Building({ what, since }: { what: string; since: number }) {
	const long = useNowText((now) => shortDuration(now - since));
	return (
		<>
			The image of this environment is being built{what && `: ${what}`}
			<span className="tabular" aria-hidden="true">
				, {long} so far
			</span>
		</>
	);
}
