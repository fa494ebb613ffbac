// A check: whether it passed, what it found, and where; the raw output is one click away.
import { useState } from 'react';
import type { CheckReport, Diagnostic, Item, TestCase } from '../../api/types';
import type { Shortened } from '../../live/shorten';
import type { ItemView } from '../../live/state';
import { visible, visibleName } from '../../text/hidden';
import { OutputText } from '../../text/output';
import { duration, plural } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Button } from '../../ui/parts';
import { Link, paths } from '../../ui/router';
import { Fold } from './rows';
import { More } from './tool';

export function Report({ view, session, open }: { view: ItemView; session: string; open?: boolean }) {
	const { item } = view;
	if (item.kind !== 'report') return null;
	const running = item.passed == null && !view.endedAt;
	const word = running ? 'checking' : item.passed ? 'passed' : item.passed === false ? 'failed' : item.status;
	return (
		<Fold
			key={word}
			icon={running ? 'clock' : item.passed ? 'check' : 'cross'}
			title={`check ${visible(item.check)} ${word}`}
			detail={tally(item)}
			bad={item.passed === false}
			open={open ?? item.passed === false}
			facts={
				<>
					{item.partial && <span>affected part</span>}
					{item.duration_ms != null && <span>{duration(item.duration_ms)}</span>}
				</>
			}
		>
			<ReportBody item={item} seq={view.seq} session={session} live={view.live?.stdout?.text ?? ''} />
		</Fold>
	);
}

export function tally(item: CheckReport): string {
	const { report } = item;
	if (!report) return item.command;
	const parts: string[] = [];
	if (report.tests_failed) parts.push(`${plural(report.tests_failed, 'test')} failed`);
	if (report.tests_passed) parts.push(`${report.tests_passed} passed`);
	if (report.tests_skipped) parts.push(`${report.tests_skipped} skipped`);
	const errors = report.diagnostics?.filter((one) => one.severity === 'error').length ?? 0;
	if (errors) parts.push(plural(errors, 'error'));
	const { changes } = item;
	if (changes?.fixed?.length) parts.push(`${changes.fixed.length} fixed`);
	if (changes?.new?.length) parts.push(`${changes.new.length} new`);
	return parts.join(', ') || item.command;
}

/** The end of what it printed; what of that was left out here is fetched when it is opened. */
function Tail({ report, seq, session }: { report: NonNullable<CheckReport['report']>; seq: number; session: string }) {
	const [open, setOpen] = useState(false);
	const [whole, setWhole] = useState<Item | null>(null);
	const left = (report as Shortened).left_out;
	const text = (whole?.kind === 'report' && whole.report?.tail) || report.tail || '';
	return (
		<details onToggle={(event) => setOpen(event.currentTarget.open)}>
			<summary className="target flex cursor-pointer items-center gap-2 px-3 py-1.5 text-xs text-muted">
				<Icon name={open ? 'down' : 'right'} size={12} />
				The end of its output
			</summary>
			<OutputText text={text} />
			{open && left && !whole ? (
				<p className="px-3 pb-1 text-xs">
					<More seq={seq} session={session} show={setWhole} left={left} />
				</p>
			) : null}
		</details>
	);
}

/** Failures and findings that are shown at once. */
const SHOWN = 50;

interface BodyProps {
	item: CheckReport;
	/** Number of the event that has all of it. */
	seq: number;
	session: string;
	live?: string;
}

export function ReportBody({ item, seq, session, live }: BodyProps) {
	const { report } = item;
	const [most, setMost] = useState(SHOWN);
	const failed = report?.tests?.filter((test) => test.status === 'failed') ?? [];
	const findings = report?.diagnostics ?? [];
	const left = failed.length + findings.length - most;
	return (
		<div className="divide-y divide-line">
			<p className="code bg-sunken px-3 py-1.5 break-words">$ {visible(item.command)}</p>
			{failed.slice(0, most).map((test, at) => (
				<Failed key={at} test={test} session={session} />
			))}
			{findings.slice(0, Math.max(0, most - failed.length)).map((one, at) => (
				<Finding key={at} one={one} session={session} />
			))}
			{left > 0 && (
				<p className="px-3 py-2">
					<Button onClick={() => setMost(most + SHOWN)}>Show {Math.min(SHOWN, left)} more</Button>{' '}
					<span className="text-xs text-muted">of {left.toLocaleString('en-GB')} that are left</span>
				</p>
			)}
			{live && !report && <OutputText text={live} follow most={200} />}
			{report?.tail && <Tail report={report} seq={seq} session={session} />}
		</div>
	);
}

function Place({
	session,
	file,
	line,
}: {
	session: string;
	file?: string | null | undefined;
	line?: number | null | undefined;
}) {
	if (!file) return null;
	return (
		<Link
			to={paths.line(session, file, line)}
			className="code target inline-flex items-center text-accent hover:underline"
		>
			{visibleName(file)}
			{line ? `:${line}` : ''}
		</Link>
	);
}

function Failed({ test, session }: { test: TestCase; session: string }) {
	return (
		<div className="px-3 py-2 text-sm">
			<p className="flex flex-wrap items-baseline gap-x-3">
				<Icon name="cross" size={12} className="text-bad" />
				<span className="font-medium break-words">{visible(test.name)}</span>
				<Place session={session} file={test.file} line={test.line} />
			</p>
			{test.expected != null && test.actual != null && (
				<p className="code mt-1 ml-6 break-words">
					expected <span className="text-good">{visible(test.expected)}</span> got{' '}
					<span className="text-bad">{visible(test.actual)}</span>
				</p>
			)}
			{test.message && test.expected == null && (
				<pre className="code mt-1 ml-6 max-h-40 overflow-auto whitespace-pre-wrap break-words text-muted">
					{visible(test.message)}
				</pre>
			)}
		</div>
	);
}

function Finding({ one, session }: { one: Diagnostic; session: string }) {
	return (
		<div className="px-3 py-2 text-sm">
			<p className="flex flex-wrap items-baseline gap-x-3">
				<span
					className={one.severity === 'error' ? 'text-bad' : one.severity === 'warning' ? 'text-needs' : 'text-muted'}
				>
					{one.severity}
				</span>
				<span className="min-w-0 break-words">{visible(one.message)}</span>
				{one.code && <span className="code text-muted">{one.code}</span>}
				<Place session={session} file={one.file} line={one.line} />
			</p>
		</div>
	);
}
