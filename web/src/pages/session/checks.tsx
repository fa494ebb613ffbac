// The last report of each check, and what each finding points at.
import { lastReports } from '../../live/derive';
import { type SessionStore, useLive } from '../../live/store';
import { Empty } from '../../ui/parts';
import { Report } from './report';

export function Checks({ store }: { store: SessionStore }) {
	const reports = useLive(store, ({ state }) => lastReports(state).map((one) => one.view));
	const wanted = useLive(store, ({ state }) => state.recipe?.checks ?? null);
	if (reports.length === 0) {
		return (
			<Empty title="No check has run yet">
				{wanted?.length
					? `When files were changed, these must pass before the turn is done: ${wanted.map((check) => check.name).join(', ')}.`
					: 'This environment has no checks, so nothing tells the agent what it broke. Add one to the environment.'}
			</Empty>
		);
	}
	return (
		<div className="min-h-0 flex-1 overflow-y-auto p-4">
			<div className="mx-auto max-w-[820px]">
				{reports.map((view) => (
					<Report key={view.id} view={view} session={store.id} open />
				))}
			</div>
		</div>
	);
}
