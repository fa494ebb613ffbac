// Puts a session away, or brings it back; either can be undone at once.
import { send } from '../api/client';
import { queries } from '../api/queries';
import type { Session } from '../api/types';
import { complain, say } from '../ui/toast';

async function put(id: string, archived: boolean): Promise<boolean> {
	try {
		await send('PATCH', `/sessions/${id}`, { archived });
		queries.invalidateQueries({ queryKey: ['session', id] });
		await queries.invalidateQueries({ queryKey: ['sessions'] });
		return true;
	} catch (error) {
		complain(error);
		return false;
	}
}

export async function archive({ id, archived = false }: Pick<Session, 'id' | 'archived'>) {
	if (await put(id, !archived)) {
		say(archived ? 'Back among the others' : 'Archived', { label: 'Undo', run: () => put(id, archived) });
	}
}
