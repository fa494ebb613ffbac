// Records what a reader of the stream is sent while sessions run, deltas included, for the tests of the reducer:
// node tests/support/record.mjs
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startServer } from './server.mjs';

const server = await startServer();
const golden = join(import.meta.dirname, '../golden');

async function record(name, environment, prompt, act) {
	const { id } = await server.call('POST', '/sessions', { environment, prompt });
	const lines = [];
	const end = new AbortController();
	const stream = await fetch(`${server.url}/api/v1/sessions/${id}/events?after=0`, {
		headers: { accept: 'application/x-ndjson' },
		signal: end.signal,
	});
	const reading = (async () => {
		let rest = '';
		for await (const chunk of stream.body.pipeThrough(new TextDecoderStream())) {
			rest += chunk;
			const parts = rest.split('\n');
			rest = parts.pop();
			for (const part of parts) if (part && !part.includes('"type":"ping"')) lines.push(part);
		}
	})().catch(() => undefined);
	await act(id);
	await server.status(id, 'done', 'escalated', 'cancelled', 'failed');
	await new Promise((done) => setTimeout(done, 500));
	end.abort();
	await reading;
	const text = lines.join('\n').replaceAll(server.directory, '/srv').replaceAll(server.model.url, 'http://model/v1');
	writeFileSync(join(golden, `${name}.jsonl`), `${text}\n`);
	process.stdout.write(`${name}: ${lines.length} lines\n`);
}

const nothing = async () => undefined;
await record('fix', 'shop', 'The cart total is off by one cent', nothing);
await record('approve', 'careful', 'Please rename the package', async (id) => {
	for (let asked = 0; asked < 2; asked += 1) {
		const { approval, status } = await server.status(id, 'waiting', 'done');
		if (status === 'done') return;
		await server.call('POST', `/sessions/${id}/approvals/${approval.id}`, { approved: true, comment: 'fine' });
		await new Promise((done) => setTimeout(done, 300));
	}
});
await record('stop', 'free', 'Please run something long', async (id) => {
	await server.call('POST', `/sessions/${id}/prompts`, { prompt: 'and then the next thing' });
	await server.call('POST', `/sessions/${id}/prompts`, { prompt: 'and the one after' });
	const { queued } = await server.call('GET', `/sessions/${id}`);
	await server.call('PATCH', `/sessions/${id}/prompts/${queued[1].id}`, { place: 'first' });
	await server.call('DELETE', `/sessions/${id}/prompts/${queued[0].id}`);
	await new Promise((done) => setTimeout(done, 1500));
	await server.call('POST', `/sessions/${id}/stop`, {});
});
await record('retry', 'free', 'Do it while the model is busy', nothing);
await server.stop();
process.exit(0);
