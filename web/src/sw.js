// The app's own worker in the browser: makes it installable, opens it without the server, and brings a notification's session
// to the front. It keeps the files of the app, which have no data in them, and nothing of what the server says: that is asked
// for each time. `FILES` and `BUILD` are put before this when the app is built; another build is another cache.
/* global FILES, BUILD */
const PREFIX = 'slipway.';
const CACHE = PREFIX + BUILD;
const PAGE = '/index.html';
/** As long is waited for the page of a server that is there and slow. */
const PATIENCE_MS = 3_000;

self.addEventListener('install', (event) => {
	event.waitUntil(
		(async () => {
			const cache = await caches.open(CACHE);
			// What has a sum of its content in its name may come from the browser's own cache; the rest is asked for.
			await cache.addAll(
				FILES.map((path) => new Request(path, { cache: path.startsWith('/assets/') ? 'default' : 'no-cache' })),
			);
			await self.skipWaiting();
		})(),
	);
});

self.addEventListener('activate', (event) => {
	event.waitUntil(
		(async () => {
			// The build before stays: a tab that was opened with it still finds its parts.
			const kept = (await caches.keys()).filter((name) => name.startsWith(PREFIX) && name !== CACHE);
			for (const name of kept.slice(0, -1)) await caches.delete(name);
			await self.clients.claim();
		})(),
	);
});

self.addEventListener('fetch', (event) => {
	const { request } = event;
	const { origin, pathname } = new URL(request.url);
	if (
		request.method !== 'GET' ||
		origin !== self.location.origin ||
		pathname === '/api' ||
		pathname.startsWith('/api/')
	)
		return;
	if (request.mode === 'navigate') event.respondWith(page(request));
	else if (pathname.startsWith('/assets/')) event.respondWith(asset(request));
	else if (FILES.includes(pathname)) event.respondWith(file(request));
});

/** The page as the server has it, so that a newer build is seen at once; the kept one where there is no answer. */
async function page(request) {
	const kept = await (await caches.open(CACHE)).match(PAGE, { ignoreVary: true });
	if (!kept) return fetch(request);
	const late = new Promise((done) => setTimeout(done, PATIENCE_MS, kept));
	const answer = fetch(request).then(
		// A proxy that has no server behind it has no page either.
		(response) => (response.status >= 500 ? kept : response),
		() => kept,
	);
	return Promise.race([answer, late]);
}

/** What is named after its content is the same for ever, whichever build it came with. */
async function asset(request) {
	return (await caches.match(request.url, { ignoreVary: true })) ?? fetch(request);
}

async function file(request) {
	try {
		return await fetch(request);
	} catch {
		return (await (await caches.open(CACHE)).match(request.url, { ignoreVary: true })) ?? Response.error();
	}
}

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
