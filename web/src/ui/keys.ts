// Keys. They never act while somebody writes or uses the terminal; those with Ctrl or Command also act in text fields.
import { useEffect, useRef } from 'react';

export type Keys = Record<string, (event: KeyboardEvent) => void>;

const layers: { current: Keys }[] = [];
let first: { key: string; at: number } | null = null;

export const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
export const mod = isMac ? '⌘' : 'Ctrl ';

function isWriting(target: EventTarget | null): boolean {
	if (!(target instanceof HTMLElement)) return false;
	// In a box that is ticked nobody writes.
	if (target instanceof HTMLInputElement && /^(checkbox|radio|button|submit)$/.test(target.type)) return false;
	return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

/** Menus, lists to choose from and dialogues take letters for themselves. */
const inLayer = (target: EventTarget | null) =>
	target instanceof Element && target.closest('dialog, [role=dialog], [role=menu], [role=listbox]') !== null;

const inTerminal = (target: EventTarget | null) => target instanceof Element && target.closest('.xterm') !== null;

/**
 * A sign that has no key of its own, such as `]` on many keyboards, is typed with AltGr, which some systems tell of as Ctrl
 * and Alt together, or with Option: what counts is the sign.
 */
const isSign = (event: KeyboardEvent) =>
	(event.altKey || event.getModifierState('AltGraph')) && /^[!-/:-@[-`{-~]$/.test(event.key);

function onKey(event: KeyboardEvent) {
	if (event.defaultPrevented || event.isComposing || inTerminal(event.target)) return;
	const sign = isSign(event) && !event.metaKey;
	const modified = !sign && (isMac ? event.metaKey : event.ctrlKey);
	// The other one belongs to the system: on a Mac, Ctrl K ends a line.
	if (!sign && (isMac ? event.ctrlKey : event.metaKey)) return;
	if (!modified && (isWriting(event.target) || inLayer(event.target))) return;
	if (event.altKey && !sign) return;
	const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
	const key = modified ? `mod+${name}` : event.key.length === 1 ? event.key : name;
	const pair = first && Date.now() - first.at < 1000 ? `${first.key} ${key}` : null;
	first = null;
	// The last layer is the one in front.
	for (const wanted of pair ? [pair, key] : [key]) {
		for (let at = layers.length - 1; at >= 0; at -= 1) {
			const act = layers[at]?.current[wanted];
			if (!act) continue;
			event.preventDefault();
			act(event);
			return;
		}
	}
	if (!modified && layers.some((layer) => Object.keys(layer.current).some((one) => one.startsWith(`${key} `)))) {
		first = { key, at: Date.now() };
	}
}

let listening = false;

/** Keys that act for as long as the component is there. */
export function useKeys(keys: Keys) {
	const layer = useRef(keys);
	layer.current = keys;
	useEffect(() => {
		if (!listening) {
			listening = true;
			window.addEventListener('keydown', onKey);
		}
		layers.push(layer);
		return () => {
			layers.splice(layers.indexOf(layer), 1);
		};
	}, []);
}

/** Frames of the screen until another page, or another part of one, is there. */
const FRAMES = 60;

/** The focus for what a key leads to, as soon as it is there. */
export function focusWhenThere(id: string, left = FRAMES) {
	const element = document.getElementById(id);
	if (element) element.focus();
	else if (left > 0) requestAnimationFrame(() => focusWhenThere(id, left - 1));
}
