// Stopping the turn: from wherever in the session one is, with what it will do.
import { useState } from 'react';
import { send } from '../../api/client';
import { currentTurn } from '../../live/state';
import { type SessionStore, useLive } from '../../live/store';
import { useKeys } from '../../ui/keys';
import { Button, Dialog } from '../../ui/parts';
import { complain } from '../../ui/toast';

/** The key for it on every part of the session, and the button where there is no composer that has one. */
export function Stop({ store, button }: { store: SessionStore; button: boolean }) {
	const working = useLive(store, ({ state }) => currentTurn(state) !== null);
	const stopping = useLive(store, ({ state }) => currentTurn(state)?.stoppingAt != null);
	const [asking, setAsking] = useState(false);
	useKeys({ s: () => working && !stopping && setAsking(true) });
	return (
		<>
			{button && working && (
				<Button kind="danger" icon="stop" disabled={stopping} className="h-7" onClick={() => setAsking(true)}>
					{stopping ? 'Stopping' : 'Stop'}
				</Button>
			)}
			<StopDialog store={store} open={asking} close={() => setAsking(false)} />
		</>
	);
}

export function StopDialog({ store, open, close }: { store: SessionStore; open: boolean; close: () => void }) {
	const queued = useLive(store, ({ state }) => state.queue.length);
	const stop = (pause: boolean) => {
		close();
		send('POST', `/sessions/${store.id}/stop`, pause ? { pause } : {}).catch(complain);
	};
	return (
		<Dialog open={open} onClose={close} label="Stop the turn">
			<div className="flex flex-col gap-3 p-4">
				<h2 className="text-lg font-semibold">Stop the turn?</h2>
				<p className="text-sm">
					What runs in the sandbox is ended. What was written and changed so far is kept, and a receipt says what was
					done and what was not. You can go on from there.
				</p>
				{queued > 0 && (
					<p className="text-sm text-muted">
						{queued} queued. Without a pause the next one begins when this turn has stopped.
					</p>
				)}
				<div className="flex flex-wrap justify-end gap-2">
					<Button kind="quiet" onClick={close}>
						Go on working
					</Button>
					{queued > 0 && <Button onClick={() => stop(true)}>Stop and pause the queue</Button>}
					<Button kind="danger" icon="stop" onClick={() => stop(false)}>
						Stop
					</Button>
				</div>
			</div>
		</Dialog>
	);
}
