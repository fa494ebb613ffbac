import { QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { takeTokenFromAddress } from './api/client';
import { queries } from './api/queries';
import { App } from './app';
import { live } from './live/link';
import './styles.css';
import { go } from './ui/router';
import { applyTheme } from './ui/theme';

takeTokenFromAddress();
applyTheme();
live.start();

const root = document.getElementById('root');
if (root) {
	createRoot(root).render(
		<StrictMode>
			<QueryClientProvider client={queries}>
				<App />
			</QueryClientProvider>
		</StrictMode>,
	);
}

if ('serviceWorker' in navigator && import.meta.env.PROD) {
	// What it keeps for later does not stand in the way of what is wanted now.
	const register = () => navigator.serviceWorker.register('/sw.js').catch(() => undefined);
	if (document.readyState === 'complete') register();
	else window.addEventListener('load', register, { once: true });
	navigator.serviceWorker.addEventListener('message', (event: MessageEvent<{ type?: string; path?: string }>) => {
		if (event.data?.type === 'go' && event.data.path) go(event.data.path);
	});
}
