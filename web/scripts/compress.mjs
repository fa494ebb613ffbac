// Writes a .br beside every file of the build that gets smaller by it; the server sends those to browsers that take them.
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';

const worth = /\.(js|css|html|svg|json|webmanifest)$/;

function* files(directory) {
	for (const name of readdirSync(directory)) {
		const path = join(directory, name);
		if (statSync(path).isDirectory()) yield* files(path);
		else yield path;
	}
}

for (const path of files('dist')) {
	if (!worth.test(path)) continue;
	const bytes = readFileSync(path);
	const small = brotliCompressSync(bytes, {
		params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
	});
	if (small.length < bytes.length) writeFileSync(`${path}.br`, small);
}
