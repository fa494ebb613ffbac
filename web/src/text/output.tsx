// The output of a command. Long ones are rows of lines of which only the visible ones exist.
import { memo, useEffect, useMemo, useRef } from 'react';
import { VList, type VListHandle } from 'virtua';
import { spans } from './ansi';
import { visible } from './hidden';

const Line = memo(function Line({ text }: { text: string }) {
	const parts = useMemo(() => spans(text).map((part) => ({ ...part, text: visible(part.text) })), [text]);
	return (
		<div className="min-h-[18px] break-words whitespace-pre-wrap">
			{parts.map((part, at) =>
				part.look ? (
					<span key={at} className={part.look}>
						{part.text}
					</span>
				) : (
					part.text
				),
			)}
		</div>
	);
});

/** Lines from which on rows are made only where they are seen. */
const MANY = 200;

export function OutputText({ text, follow = false, most = 320 }: { text: string; follow?: boolean; most?: number }) {
	const lines = useMemo(() => {
		const all = text.split('\n');
		if (all.at(-1) === '') all.pop();
		return all;
	}, [text]);
	const list = useRef<VListHandle>(null);
	const box = useRef<HTMLDivElement>(null);
	const stuck = useRef(true);
	useEffect(() => {
		if (!follow || !stuck.current) return;
		if (box.current) box.current.scrollTop = box.current.scrollHeight;
		else list.current?.scrollToIndex(lines.length - 1, { align: 'end' });
	}, [follow, lines]);
	if (lines.length > MANY) {
		return (
			<VList
				ref={list}
				data={lines}
				style={{ height: most }}
				className="code px-3 py-2"
				tabIndex={0}
				role="group"
				aria-label={`Output, ${lines.length} lines`}
				onScroll={(offset) => {
					const handle = list.current;
					if (handle) stuck.current = offset + handle.viewportSize >= handle.scrollSize - 24;
				}}
			>
				{(line, at) => <Line key={at} text={line} />}
			</VList>
		);
	}
	return (
		<div
			ref={box}
			className="code overflow-auto px-3 py-2"
			style={{ maxHeight: most }}
			// biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable from the keyboard.
			tabIndex={0}
			role="group"
			aria-label="Output"
			onScroll={(event) => {
				const element = event.currentTarget;
				stuck.current = element.scrollTop + element.clientHeight >= element.scrollHeight - 24;
			}}
		>
			{lines.map((line, at) => (
				<Line key={at} text={line} />
			))}
		</div>
	);
}
