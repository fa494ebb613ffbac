// A model that follows scripts, over the same HTTP as a real one (chat completions, streamed). The script is chosen by
// the words of the last prompt that names one; the step by how many answers came since.
import { createServer } from 'node:http';
import { scripts } from './scripts.mjs';

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function textOf(content) {
	if (typeof content === 'string') return content;
	if (!Array.isArray(content)) return '';
	return content.map((part) => part.text ?? '').join('\n');
}

function choose(messages) {
	for (let at = messages.length - 1; at >= 0; at -= 1) {
		if (messages[at].role !== 'user') continue;
		const text = textOf(messages[at].content);
		// Answers and notes of the server are messages, too: they name no script, and the last one of all is for when none is named.
		const script = scripts.slice(0, -1).find((one) => one.when.test(text));
		if (script) {
			const step = messages.slice(at + 1).filter((message) => message.role === 'assistant').length;
			return { script, step };
		}
	}
	return { script: scripts.at(-1), step: 0 };
}

/** Starts it; `gate(name)` holds every step that waits for that name until `open(name)`. */
export async function startModel(port = 0) {
	const gates = new Map();
	const opened = new Set();
	const failures = new Map();
	const held = (name) => {
		if (opened.has(name)) return Promise.resolve();
		return new Promise((resolve) => gates.set(name, [...(gates.get(name) ?? []), resolve]));
	};
	const server = createServer(async (request, response) => {
		let body = '';
		for await (const chunk of request) body += chunk;
		if (request.url.endsWith('/models')) {
			response.setHeader('content-type', 'application/json');
			response.end(JSON.stringify({ data: [{ id: 'scripted' }] }));
			return;
		}
		const { messages = [] } = JSON.parse(body || '{}');
		const { script, step: number } = choose(messages);
		const step = script.steps[Math.min(number, script.steps.length - 1)];
		const key = `${script.name}:${number}`;
		const failed = failures.get(key) ?? 0;
		if (step.overloaded && failed < step.overloaded) {
			failures.set(key, failed + 1);
			response.writeHead(529, { 'content-type': 'application/json' });
			response.end(JSON.stringify({ error: { message: 'Overloaded, please try again', type: 'overloaded_error' } }));
			return;
		}
		response.writeHead(200, { 'content-type': 'text/event-stream' });
		const send = (delta, finish = null, usage = undefined) =>
			response.write(
				`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', model: 'scripted', choices: [{ index: 0, delta, finish_reason: finish }], ...(usage ? { usage } : {}) })}\n\n`,
			);
		const gap = step.gap ?? script.gap ?? 2;
		for (const piece of (step.reasoning ?? '').match(/\S+\s*/g) ?? []) {
			send({ reasoning_content: piece });
			await pause(gap);
		}
		const words = (step.text ?? '').match(/\S+\s*/g) ?? [];
		for (const [index, piece] of words.entries()) {
			if (step.gate && index === Math.floor(words.length / 2)) await held(step.gate);
			send({ content: piece });
			await pause(gap);
			if (response.destroyed) return;
		}
		if (step.gate && words.length === 0) await held(step.gate);
		(step.calls ?? []).forEach(([name, input], index) => {
			send({
				tool_calls: [
					{
						index,
						id: `call_${number}_${index}`,
						type: 'function',
						function: { name, arguments: JSON.stringify(input) },
					},
				],
			});
		});
		const tokens = Math.round(body.length / 4);
		send({}, step.calls ? 'tool_calls' : 'stop', {
			prompt_tokens: tokens,
			completion_tokens: 40 + words.length,
			prompt_tokens_details: { cached_tokens: Math.floor(tokens * 0.7) },
		});
		response.write('data: [DONE]\n\n');
		response.end();
	});
	await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
	return {
		url: `http://127.0.0.1:${server.address().port}/v1`,
		open(name) {
			opened.add(name);
			for (const go of gates.get(name) ?? []) go();
			gates.delete(name);
		},
		close() {
			server.closeAllConnections();
			server.close();
		},
	};
}
