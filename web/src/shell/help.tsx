// Every key, on one card.
import { mod } from '../ui/keys';
import { Dialog, IconButton, Kbd } from '../ui/parts';

const keys: { title: string; keys: [string, string][] }[] = [
	{
		title: 'Everywhere',
		keys: [
			[`${mod}K`, 'Find anything, do anything'],
			['?', 'This list'],
			['c', 'New session'],
			['/', 'Search sessions'],
			['g s', 'Sessions'],
			['g e', 'Environments'],
			['g t', 'Statistics'],
			[',', 'Settings'],
		],
	},
	{
		title: 'Sessions',
		keys: [
			['j', 'Next session'],
			['k', 'Previous session'],
			['Enter', 'Open it'],
			['e', 'Archive it'],
		],
	},
	{
		title: 'In a session',
		keys: [
			[`${mod}Enter`, 'Send'],
			['i', 'Write a follow-up'],
			['s', 'Stop the turn'],
			['a', 'To what waits for you'],
			['1 – 6', 'Session, changes, checks, terminal, files, events'],
			['.', 'Plan, queue, people, budget'],
			['G', 'To the end'],
		],
	},
	{
		title: 'In the changes',
		keys: [
			['] [', 'Next file, previous file'],
			['n p', 'Next change, previous change'],
			['v', 'Mark the file as viewed'],
			['↑ ↓', 'From line to line of a change'],
			['m', 'Comment on the line, or on the file'],
		],
	},
	{
		title: 'In the terminal',
		keys: [
			['Esc Tab', 'Leave it, to what comes after'],
			['Esc ⇧ Tab', 'Leave it, to what comes before'],
		],
	},
];

export function Help({ open, close }: { open: boolean; close: () => void }) {
	return (
		<Dialog open={open} onClose={close} label="Keys" className="w-[min(720px,calc(100vw-24px))]">
			<div className="flex items-center border-b border-line py-1.5 pr-2 pl-4">
				<h2 className="flex-1 font-semibold">Keys</h2>
				<IconButton icon="cross" label="Close" onClick={close} />
			</div>
			<div className="grid gap-x-8 gap-y-4 p-4 sm:grid-cols-2">
				{keys.map((part) => (
					<section key={part.title}>
						<h3 className="heading mb-1">{part.title}</h3>
						<dl>
							{part.keys.map(([key, what]) => (
								<div key={key} className="flex items-center gap-2 py-0.5 text-sm">
									<dt className="w-24 shrink-0">
										<Kbd>{key}</Kbd>
									</dt>
									<dd>{what}</dd>
								</div>
							))}
						</dl>
					</section>
				))}
			</div>
			<p className="border-t border-line px-4 py-2 text-xs text-muted">
				Keys do nothing while you write or use the terminal.
			</p>
		</Dialog>
	);
}
