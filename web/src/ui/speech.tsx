// Speaking instead of typing, where the browser can. The words go into the field to be read; nothing is sent by itself.
import { useEffect, useRef, useState } from 'react';
import { IconButton } from './parts';
import { say } from './toast';

interface Recognition {
	lang: string;
	interimResults: boolean;
	continuous: boolean;
	start(): void;
	stop(): void;
	onresult: ((event: { resultIndex: number; results: ArrayLike<ArrayLike<{ transcript: string }>> }) => void) | null;
	onend: (() => void) | null;
	onerror: ((event: { error: string }) => void) | null;
}

const scope = window as unknown as Record<string, (new () => Recognition) | undefined>;
const Speech = scope.SpeechRecognition ?? scope.webkitSpeechRecognition;

export function Microphone({ onText }: { onText: (text: string) => void }) {
	const [on, setOn] = useState(false);
	const recognition = useRef<Recognition | null>(null);
	// What is said later is added to what the field has by then.
	const heard = useRef(onText);
	heard.current = onText;
	useEffect(() => () => recognition.current?.stop(), []);
	if (!Speech) return null;
	const toggle = () => {
		if (on) {
			recognition.current?.stop();
			return;
		}
		const listener = new Speech();
		listener.lang = navigator.language;
		listener.interimResults = false;
		listener.continuous = true;
		listener.onresult = (event) => {
			const said = Array.from(event.results).slice(event.resultIndex);
			const text = said.map((one) => one[0]?.transcript.trim()).filter(Boolean);
			if (text.length) heard.current(text.join(' '));
		};
		listener.onend = () => setOn(false);
		listener.onerror = (event) => say(`The microphone cannot be used: ${event.error}`);
		listener.start();
		recognition.current = listener;
		setOn(true);
	};
	return (
		<IconButton
			icon="mic"
			label={on ? 'Stop listening' : 'Speak'}
			aria-pressed={on}
			className={on ? 'text-bad' : ''}
			onClick={toggle}
		/>
	);
}
