// What the pages ask the server, each with its key. Lists are kept fresh by the socket where the server can, else by asking.
import { keepPreviousData, QueryClient, useQuery } from '@tanstack/react-query';
import { knowModels } from '../live/limits';
import { ApiError, get, query } from './client';
import type { Me, Model, NamedEnvironment, Problem, Session, SessionList } from './types';

export const queries = new QueryClient({
	defaultOptions: {
		queries: {
			staleTime: 5_000,
			retry: (count, error) => count < 2 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
			refetchOnWindowFocus: true,
			// A browser without a network may still reach a server on its own machine; and who asks wants to be told.
			networkMode: 'always',
		},
	},
});

export interface Filters {
	q?: string;
	environment?: string;
	author?: string;
	archived?: string;
}

/** What is not set is no filter, so that all who ask for the same have the same answer. */
export function sessionsKey(filters: Filters) {
	return ['sessions', Object.fromEntries(Object.entries(filters).filter(([, value]) => value))] as const;
}

export function useSessions(filters: Filters = {}) {
	return useQuery({
		queryKey: sessionsKey(filters),
		queryFn: ({ signal }) => get<SessionList>(`/sessions${query({ ...filters })}`, signal),
		// While one writes into the search, what was found before stays.
		placeholderData: keepPreviousData,
		refetchInterval: 30_000,
		// A tab that nobody sees is the one that tells of what needs somebody.
		refetchIntervalInBackground: true,
	});
}

/** A session as lists show it: from the list, or where it is none of that, such as one that was put away, by itself. */
export function useListed(id: string): Session | undefined {
	const { there, alone } = useFound(id);
	return there ?? alone.data;
}

/** Why a session cannot be had, where the server said so of itself: there is none of this name, or it is not for this person. */
export function useListedProblem(id: string): Problem | null {
	const { there, alone } = useFound(id);
	const { error } = alone;
	return !there && error instanceof ApiError && error.status >= 400 && error.status < 500 ? error.problem : null;
}

function useFound(id: string) {
	const list = useSessions();
	const there = list.data?.sessions.find((session) => session.id === id);
	const alone = useQuery({
		queryKey: ['session', id],
		queryFn: ({ signal }) => get<Session>(`/sessions/${encodeURIComponent(id)}`, signal),
		enabled: list.isSuccess && !there,
		refetchInterval: 30_000,
	});
	return { there, alone };
}

export function useEnvironments() {
	return useQuery({
		queryKey: ['environments'],
		queryFn: async ({ signal }) =>
			(await get<{ environments: NamedEnvironment[] }>('/environments', signal)).environments,
		staleTime: 30_000,
	});
}

export function useModels() {
	return useQuery({
		queryKey: ['models'],
		queryFn: async ({ signal }) => {
			const { models } = await get<{ models: Model[] }>('/models', signal);
			knowModels(models);
			return models;
		},
		staleTime: 60_000,
	});
}

/** Who this browser acts for. A server that cannot tell is asked no further. */
export function useMe() {
	return useQuery({
		queryKey: ['me'],
		queryFn: async ({ signal }): Promise<Me> => {
			try {
				return await get<Me>('/me', signal);
			} catch (error) {
				if (!(error instanceof ApiError) || error.status !== 404) throw error;
				const health = await get<{ version: string; instance: string }>('/health', signal);
				return { name: 'you', source: 'local', needs_token: false, ...health };
			}
		},
		staleTime: 60_000,
	});
}
