import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';

// `npm run dev` shows the app at once and asks a running server for everything else.
const server = process.env.SLIPWAY_SERVER ?? 'http://127.0.0.1:7717';

export default defineConfig({
	plugins: [react(), tailwindcss()],
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
