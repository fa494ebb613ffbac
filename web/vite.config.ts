import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

// `npm run dev` shows the app at once and asks a running server for everything else.
const server = process.env.SLIPWAY_SERVER ?? 'http://127.0.0.1:7717';

/** The worker that opens the app without a server: `src/sw.js`, told which files this build has. */
const keptFiles: Plugin = {
	name: 'kept-files',
	apply: 'build',
	generateBundle: {
		order: 'post',
		handler(_, bundle) {
			const files = [...Object.keys(bundle), ...readdirSync('public')].map((name) => `/${name}`).sort();
			const sum = createHash('sha256').update(files.join('\n')).update(readFileSync('index.html'));
			for (const name of readdirSync('public')) sum.update(readFileSync(`public/${name}`));
			const head = `const BUILD = '${sum.digest('hex').slice(0, 16)}';\nconst FILES = ${JSON.stringify(files)};\n`;
			this.emitFile({ type: 'asset', fileName: 'sw.js', source: head + readFileSync('src/sw.js', 'utf8') });
		},
	},
};

export default defineConfig({
	plugins: [react(), tailwindcss(), keptFiles],
	build: {
		target: 'es2022',
		// A page may run no script that is written into it, so nothing is.
		modulePreload: { polyfill: false },
		assetsInlineLimit: 0,
		chunkSizeWarningLimit: 700,
		reportCompressedSize: false,
	},
	worker: { format: 'es' },
	server: {
		proxy: {
			'/api': {
				target: server,
				ws: true,
				changeOrigin: true,
				// The server takes commands from its own pages only; in development those come from here.
				configure: (proxy) => {
					proxy.on('proxyReq', (request) => request.removeHeader('origin'));
					proxy.on('proxyReqWs', (request) => request.removeHeader('origin'));
				},
			},
		},
	},
	test: { include: ['tests/unit/**/*.test.ts', 'tests/unit/**/*.test.tsx'], environment: 'node' },
});
