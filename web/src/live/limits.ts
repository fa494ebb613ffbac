// How long a model may be silent before its call is given up: known from the list of models, and not from the log.
import type { Model } from '../api/types';

const idle = new Map<string, number>();

export function knowModels(models: Model[]) {
	for (const { name, idle_ms: ms } of models) if (ms) idle.set(name, ms);
}

export const idleOf = (model: string): number | null => idle.get(model) ?? null;
