// A file as text, with its lines numbered; only those in view exist. An address can point at one.
import { useLayoutEffect, useMemo, useRef } from 'react';
import { VList, type VListHandle } from 'virtua';
import { visible } from './hidden';

/** Longer lines are cut; the terminal has all of them. */
const LONG = 4000;

export function FileText({ text, wanted, label }: { text: string; wanted: number; label: string }) {
	const lines = useMemo(() => text.replace(/\r?\n$/, '').split(/\r?\n/), [text]);
	const list = useRef<VListHandle>(null);
	useLayoutEffect(() => {
		if (wanted > 0 && wanted <= lines.length) list.current?.scrollToIndex(wanted - 1, { align: 'center' });
	}, [wanted, lines]);
	return (
		<VList
			ref={list}
			data={lines}
			tabIndex={0}
			role="group"
			aria-label={`${label}, ${lines.length} lines`}
			className="code h-full"
		>
			{(line, at) => (
				<div
					key={at}
					data-line={at + 1}
					className={`flex ${at + 1 === wanted ? 'bg-needs-soft outline-2 -outline-offset-2 outline-needs' : ''}`}
				>
					<span className="tabular w-12 shrink-0 pr-3 text-right text-muted select-none">{at + 1}</span>
					<span className="min-h-[18px] min-w-0 flex-1 pr-4 break-words whitespace-pre-wrap">
						{visible(line.slice(0, LONG))}
						{line.length > LONG && <span className="text-muted"> …</span>}
					</span>
				</div>
			)}
		</VList>
	);
}
