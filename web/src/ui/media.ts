import { useSyncExternalStore } from 'react';

/** Whether a media query fits. */
export function useMedia(media: string): boolean {
	return useSyncExternalStore(
		(listener) => {
			const list = matchMedia(media);
			list.addEventListener('change', listener);
			return () => list.removeEventListener('change', listener);
		},
		() => matchMedia(media).matches,
	);
}

export const usePhone = () => useMedia('(max-width: 767px)');
export const useWide = () => useMedia('(min-width: 1180px)');
/** Whether one points with a finger. */
export const useTouch = () => useMedia('(pointer: coarse)');
