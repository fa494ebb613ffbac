// A chart over time, with its numbers in a table beside it. The chart is a picture; everything in it is in the table.
import { useEffect, useRef, useSyncExternalStore } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

export interface Series {
	label: string;
	/** A token of the colours, such as `--good`. */
	colour: string;
	values: number[];
	/** Bars stand for amounts, lines for a course. */
	bars?: boolean;
}

/** Changes when the colours do. */
function useColours(): string {
	return useSyncExternalStore(
		(listener) => {
			const media = matchMedia('(prefers-color-scheme: dark)');
			media.addEventListener('change', listener);
			const observer = new MutationObserver(listener);
			observer.observe(document.documentElement, { attributeFilter: ['data-theme'] });
			return () => {
				media.removeEventListener('change', listener);
				observer.disconnect();
			};
		},
		() => getComputedStyle(document.documentElement).getPropertyValue('--text'),
	);
}

export function Chart({
	label,
	days,
	series,
	format,
	height = 200,
	least = 1,
}: {
	/** What is to be seen, in words. */
	label: string;
	/** First days of the parts, such as 2026-11-16. */
	days: string[];
	series: Series[];
	format: (value: number) => string;
	height?: number;
	/** What the axis goes up to at least. */
	least?: number;
}) {
	const box = useRef<HTMLDivElement>(null);
	const colours = useColours();
	// biome-ignore lint/correctness/useExhaustiveDependencies: other colours are another picture.
	useEffect(() => {
		const element = box.current;
		if (!element) return;
		const style = getComputedStyle(document.documentElement);
		const colour = (name: string) => style.getPropertyValue(name).trim();
		const axis = {
			stroke: colour('--muted'),
			font: '12px system-ui, sans-serif',
			grid: { stroke: colour('--line'), width: 1 },
			ticks: { show: false },
		};
		const bars = uPlot.paths.bars?.({ size: [0.6, 40] });
		const plot = new uPlot(
			{
				width: element.clientWidth,
				height,
				// The table beside it has the numbers; the legend says what is what.
				legend: { live: false },
				cursor: { y: false, points: { size: 6 } },
				scales: {
					// Half a part of room on both sides, so that bars are whole.
					x: {
						time: true,
						range: (_, from, to) => {
							const half = days.length > 1 ? (to - from) / (days.length - 1) / 2 : 43_200;
							return [from - half, to + half];
						},
					},
					y: { range: (_, __, most) => [0, Math.max(most * 1.1, least)] },
				},
				tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
				axes: [
					{ ...axis, grid: { show: false }, values: (_, splits) => splits.map((split) => day(split * 1000)) },
					{ ...axis, size: 52, values: (_, splits) => splits.map((split) => format(split)) },
				],
				series: [
					{ label: 'From', value: (_, seconds) => (seconds == null ? '' : day(seconds * 1000)) },
					...series.map((one) => ({
						label: one.label,
						stroke: colour(one.colour),
						width: 2,
						...(one.bars ? { fill: colour(one.colour), width: 0, ...(bars ? { paths: bars } : {}) } : {}),
						points: { show: !one.bars && days.length < 40, size: 5 },
						value: (_: uPlot, value: number | null) => (value == null ? '' : format(value)),
					})),
				],
			},
			[days.map((one) => Date.parse(`${one}T00:00:00Z`) / 1000), ...series.map((one) => one.values)],
			element,
		);
		const observer = new ResizeObserver(() => {
			if (element.clientWidth > 0) plot.setSize({ width: element.clientWidth, height });
		});
		observer.observe(element);
		return () => {
			observer.disconnect();
			plot.destroy();
		};
	}, [days, series, height, least, colours]);
	return <div ref={box} role="img" aria-label={label} className="chart min-w-0 overflow-hidden" />;
}

const short = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });
export const day = (at: number | string) => short.format(new Date(at));
