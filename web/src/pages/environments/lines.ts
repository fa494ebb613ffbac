/** What the configuration file is to have for an environment to reach these hosts. */
export function linesFor(name: string, rules: string[]): string {
	const key = /^[A-Za-z0-9_-]+$/.test(name) ? name : JSON.stringify(name);
	return `[environments.${key}]\negress = [${rules.map((rule) => JSON.stringify(rule)).join(', ')}]\n`;
}
