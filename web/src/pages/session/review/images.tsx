// An image before and after: beside each other, or one over the other with a slider.
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { ApiError, ask, inWords, query } from '../../../api/client';
import type { FilePatch } from '../../../diff/parse';
import { visible } from '../../../text/hidden';
import { bytes } from '../../../ui/format';
import { Segments, Waiting } from '../../../ui/parts';

const kinds: Record<string, string> = {
	png: 'image/png',
	jpg: 'image/jpeg',
	jpeg: 'image/jpeg',
	gif: 'image/gif',
	webp: 'image/webp',
	svg: 'image/svg+xml',
};

export const imageKind = (path: string) => kinds[path.split('.').at(-1)?.toLowerCase() ?? ''] ?? null;

interface Picture {
	blob: Blob;
}

/** As an image the browser runs nothing that is in it, whatever it is. */
function usePicture(session: string, path: string, at: 'now' | 'base', wanted: boolean, version: string) {
	return useQuery({
		queryKey: ['picture', session, path, at, version],
		enabled: wanted,
		retry: false,
		queryFn: async ({ signal }): Promise<Picture | null> => {
			try {
				const answer = await ask('GET', `/sessions/${session}/file${query({ path, at })}`, { signal, accept: '*/*' });
				return { blob: new Blob([await answer.arrayBuffer()], { type: imageKind(path) ?? 'image/png' }) };
			} catch (error) {
				if (error instanceof ApiError && error.status === 404) return null;
				throw error;
			}
		},
	});
}

function useAddress(picture: Picture | null | undefined): string | null {
	const [address, setAddress] = useState<string | null>(null);
	useEffect(() => {
		if (!picture) {
			setAddress(null);
			return;
		}
		const made = URL.createObjectURL(picture.blob);
		setAddress(made);
		return () => URL.revokeObjectURL(made);
	}, [picture]);
	return address;
}

export function ImageChange({ session, file, version }: { session: string; file: FilePatch; version: string }) {
	const [how, setHow] = useState<'beside' | 'over'>('beside');
	const [place, setPlace] = useState(50);
	const before = usePicture(session, file.oldPath ?? file.path, 'base', file.status !== 'added', version);
	const after = usePicture(session, file.path, 'now', file.status !== 'deleted', version);
	const old = useAddress(before.data);
	const fresh = useAddress(after.data);
	const error = before.error ?? after.error;
	if (error) return <p className="px-4 py-3 text-sm text-muted">{inWords(error).title}</p>;
	if (before.isFetching || after.isFetching) return <Waiting>Fetching the image</Waiting>;
	const both = old !== null && fresh !== null;
	const picture = (address: string, word: string, blob: Blob | undefined) => (
		<figure className="min-w-0 flex-1">
			<figcaption className="mb-1 text-xs text-muted">
				{word}
				{blob && `, ${bytes(blob.size)}`}
			</figcaption>
			<img
				src={address}
				alt={`${visible(file.path)}, ${word}`}
				className="checkered max-h-[480px] max-w-full border border-line"
			/>
		</figure>
	);
	return (
		<div className="flex flex-col gap-3 px-4 py-3">
			{both && (
				<div className="flex items-center gap-3">
					<Segments
						label="How the images are compared"
						value={how}
						options={[
							{ value: 'beside', label: 'Beside' },
							{ value: 'over', label: 'Over each other' },
						]}
						onChange={setHow}
					/>
					{how === 'over' && (
						<input
							type="range"
							min={0}
							max={100}
							value={place}
							aria-label="How much of the new image is shown"
							onChange={(event) => setPlace(Number(event.target.value))}
						/>
					)}
				</div>
			)}
			{both && how === 'over' ? (
				<div className="relative self-start">
					<img
						src={old}
						alt={`${visible(file.path)}, before`}
						className="checkered max-h-[480px] max-w-full border border-line"
					/>
					<img
						src={fresh}
						alt={`${visible(file.path)}, after`}
						className="checkered absolute inset-0 h-full w-full border border-line object-contain object-left-top"
						style={{ clipPath: `inset(0 ${100 - place}% 0 0)` }}
					/>
				</div>
			) : (
				<div className="flex flex-wrap gap-4">
					{old && picture(old, 'before', before.data?.blob)}
					{fresh && picture(fresh, 'after', after.data?.blob)}
				</div>
			)}
			{!old && !fresh && <p className="text-sm text-muted">The image cannot be shown any more.</p>}
		</div>
	);
}
