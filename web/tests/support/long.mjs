// A stand-in that has one session with a very long log: to measure the app alone, with a log that no sandbox has to make
// first.
import { listed, logOf, startStandIn } from './stand-in.mjs';

const ID = 'ses_00000000000000000000000001';

/** The events of a session: `items` calls with an output each, `bytes` of log in all. */
export function longLog({ items = 20_000, bytes = 50 * 1024 * 1024 } = {}) {
	const { lines, put } = logOf(ID);
	const turn = (number) => `trn_${String(number).padStart(26, '0')}`;
	const perTurn = 200;
	const size = Math.floor(bytes / items / 0.9) - 340;
	const row = 'a line of output that some program printed, as they do\n';
	const text = row.repeat(Math.max(1, Math.floor(size / row.length)));
	put('session.created', {
		title: 'A very long session',
		environment: 'shop',
		recipe: { repos: [] },
		model: 'main',
		budgets: { turn: {}, session: {} },
	});
	for (let at = 0; at < items; at += 1) {
		const number = Math.floor(at / perTurn);
		if (at % perTurn === 0) {
			const prompt = `prm_${String(number).padStart(26, '0')}`;
			put('prompt.queued', { prompt, text: `Part ${number} of the work`, author: 'ana', place: 'last' });
			put('turn.started', { turn: turn(number), prompt });
		}
		const id = `itm_${String(at).padStart(26, '0')}`;
		const message = at % 10 === 9;
		const item = message
			? { id, kind: 'message', status: 'completed', text: `Step ${at}: **done**, and on to the next.` }
			: {
					id,
					kind: 'tool_call',
					status: at % 50 === 7 ? 'failed' : 'completed',
					tool: 'shell',
					input: { command: `make part-${at}` },
					output: { text: `${text}end of ${at}\n`, bytes: text.length, truncated: false },
					exit_code: at % 50 === 7 ? 1 : 0,
					duration_ms: 40,
				};
		put('item.completed', { turn: turn(number), item });
		if (at % perTurn === perTurn - 1)
			put('turn.finished', {
				turn: turn(number),
				outcome: 'done',
				receipt: {
					steps: 100,
					duration_ms: 90_000,
					tools_completed: perTurn,
					files_changed: 0,
					insertions: 0,
					deletions: 0,
					spend: { usage: {}, cost_usd: 0.2, calls: 10, unpriced_calls: 0 },
				},
			});
	}
	return { lines, seq: lines.length };
}

export async function startLong(log = longLog()) {
	const session = listed(1, { title: 'A very long session', seq: log.seq });
	const { url, close } = await startStandIn({ sessions: [session], logs: { [ID]: log.lines } });
	return { id: ID, url, close };
}
