// Makes the app installable and brings a notification's session to the front. It keeps nothing: what the app shows must
// come from the server.
self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));

self.addEventListener('notificationclick', (event) => {
	event.notification.close();
	const path = event.notification.data?.path ?? '/';
	event.waitUntil(
		(async () => {
			const windows = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
			const open = windows[0];
			if (!open) return self.clients.openWindow(path);
			await open.focus();
			open.postMessage({ type: 'go', path });
		})(),
	);
});
