// Everything from the keyboard: sessions, pages, and what can be done with the session that is open.
import { Command } from 'cmdk';
import { useState } from 'react';
import { send } from '../api/client';
import { useEnvironments, useModels, useSessions } from '../api/queries';
import { visible } from '../text/hidden';
import { Icon, type IconName } from '../ui/icons';
import { Dialog } from '../ui/parts';
import { go, match, paths } from '../ui/router';
import { groupOf, StatusMark } from '../ui/status';
import { setTheme } from '../ui/theme';
import { complain, say } from '../ui/toast';
import { archive } from './archive';

const item =
	'flex min-h-8 cursor-default items-center gap-2 rounded-sm px-2 py-1 text-sm data-[selected=true]:bg-accent-soft max-md:min-h-11';
const group =
	'[&_[cmdk-group-heading]]:px-2 [&_[cmdk-group-heading]]:pt-2 [&_[cmdk-group-heading]]:pb-1 [&_[cmdk-group-heading]]:text-xs [&_[cmdk-group-heading]]:font-semibold [&_[cmdk-group-heading]]:text-muted';

export default function Palette({ close, showHelp }: { close: () => void; showHelp: () => void }) {
	const [text, setText] = useState('');
	const sessions = useSessions().data?.sessions ?? [];
	const environments = useEnvironments().data ?? [];
	const models = useModels().data ?? [];
	const open = match('/s/:id/:tab?', location.pathname)?.id;
	const here = sessions.find((session) => session.id === open);
	const run = (act: () => void) => () => {
		close();
		act();
	};
	const tell = (what: Promise<unknown>, done: string) => {
		what.then(() => say(done), complain);
	};
	return (
		<Dialog open onClose={close} label="Find anything" top className="w-[min(600px,calc(100vw-24px))]">
			<Command label="Find anything" loop>
				<div className="flex items-center gap-2 border-b border-line px-3">
					<Icon name="search" className="text-muted" />
					<Command.Input
						data-autofocus
						value={text}
						onValueChange={setText}
						placeholder="A session, a page, or what to do"
						className="h-11 min-w-0 flex-1 bg-transparent outline-none"
					/>
				</div>
				<Command.List className="max-h-[50vh] overflow-auto p-1">
					<Command.Empty className="px-3 py-6 text-center text-sm text-muted">
						Nothing fits. Enter starts no session by itself: press c for that.
					</Command.Empty>
					{open && (
						<Command.Group heading="This session" className={group}>
							{here && groupOf(here) !== 'finished' && here.turn && (
								<Entry icon="stop" onSelect={run(() => tell(send('POST', `/sessions/${open}/stop`, {}), 'Stopping'))}>
									Stop the turn: what runs is ended, the work so far is kept
								</Entry>
							)}
							<Entry icon="ship" onSelect={run(() => go(`${paths.session(open, 'changes')}?deliver=1`))}>
								Deliver the branch, after a look at the pull request
							</Entry>
							<Entry icon="archive" onSelect={run(() => archive({ id: open, archived: here?.archived ?? false }))}>
								{here?.archived ? 'Bring it back from the archive' : 'Archive'}
							</Entry>
							{['changes', 'checks', 'terminal', 'files', 'events'].map((tab) => (
								<Entry key={tab} icon="right" onSelect={run(() => go(paths.session(open, tab)))}>
									Show {tab}
								</Entry>
							))}
							{models.map((model) => (
								<Entry
									key={model.name}
									icon="gear"
									onSelect={run(() =>
										tell(
											send('PATCH', `/sessions/${open}`, { model: model.name }),
											`${model.name} works from the next step on`,
										),
									)}
								>
									Work with {model.name}
								</Entry>
							))}
						</Command.Group>
					)}
					<Command.Group heading="Go" className={group}>
						<Entry icon="plus" onSelect={run(() => go(paths.newSession()))}>
							New session
						</Entry>
						<Entry icon="inbox" onSelect={run(() => go(paths.sessions()))}>
							Sessions
						</Entry>
						<Entry icon="box" onSelect={run(() => go(paths.environments()))}>
							Environments
						</Entry>
						<Entry icon="chart" onSelect={run(() => go(paths.statistics()))}>
							Statistics
						</Entry>
						<Entry icon="gear" onSelect={run(() => go(paths.settings()))}>
							Settings
						</Entry>
						<Entry icon="book" onSelect={run(showHelp)}>
							Keys
						</Entry>
					</Command.Group>
					<Command.Group heading="Sessions" className={group}>
						{sessions.slice(0, 50).map((session) => (
							<Command.Item
								key={session.id}
								value={`${session.title} ${session.environment} ${session.id}`}
								onSelect={run(() => go(paths.session(session.id)))}
								className={item}
							>
								<StatusMark status={session.status} word={false} />
								<span className="min-w-0 flex-1 truncate">{visible(session.title)}</span>
								<span className="text-xs text-muted">{session.environment}</span>
							</Command.Item>
						))}
					</Command.Group>
					<Command.Group heading="New session in" className={group}>
						{environments.map((environment) => (
							<Entry
								key={environment.name}
								icon="plus"
								onSelect={run(() => go(`${paths.newSession()}?environment=${encodeURIComponent(environment.name)}`))}
							>
								{environment.name}
							</Entry>
						))}
					</Command.Group>
					<Command.Group heading="Look" className={group}>
						{(['system', 'light', 'dark'] as const).map((theme) => (
							<Entry key={theme} icon="half" onSelect={run(() => setTheme(theme))}>
								{theme === 'system' ? 'As the system is' : theme === 'light' ? 'Light' : 'Dark'}
							</Entry>
						))}
					</Command.Group>
				</Command.List>
			</Command>
		</Dialog>
	);
}

function Entry({ icon, children, onSelect }: { icon: IconName; children: React.ReactNode; onSelect: () => void }) {
	return (
		<Command.Item onSelect={onSelect} className={item}>
			<Icon name={icon} size={14} className="text-muted" />
			<span className="truncate">{children}</span>
		</Command.Item>
	);
}
