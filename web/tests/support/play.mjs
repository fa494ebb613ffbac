// Keeps a server with the scripted model running for `npm run dev`: node tests/support/play.mjs [port]
import { startServer } from './server.mjs';

const server = await startServer({ port: Number(process.argv[2] ?? 7717), directory: process.argv[3] });
process.stdout.write(`${server.url} in ${server.directory}\n`);
process.on('SIGINT', () => server.stop().then(() => process.exit(0)));
process.on('SIGTERM', () => server.stop().then(() => process.exit(0)));
