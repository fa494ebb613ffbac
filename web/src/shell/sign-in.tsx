// Asks for the token where the server demands one.
import { type FormEvent, useState } from 'react';
import { keepToken, token } from '../api/client';
import { queries } from '../api/queries';
import { live } from '../live/link';
import { Icon } from '../ui/icons';
import { Button } from '../ui/parts';

export function SignIn() {
	const [value, setValue] = useState('');
	const [busy, setBusy] = useState(false);
	const enter = async (event: FormEvent) => {
		event.preventDefault();
		keepToken(value.trim());
		live.again();
		setBusy(true);
		await queries.invalidateQueries();
		setBusy(false);
	};
	return (
		<main className="grid h-dvh place-items-center p-4">
			<form onSubmit={enter} className="flex w-full max-w-sm flex-col gap-3">
				<h1 className="flex items-center gap-2 text-xl font-semibold">
					<Icon name="ship" size={20} className="text-accent" /> Slipway
				</h1>
				<p className="text-sm text-muted">
					This server wants a token. Whoever runs it can give you one; a link that ends with <code>#token=…</code> signs
					you in by itself. The token stays in this browser.
				</p>
				<label className="flex flex-col gap-1 text-sm font-medium">
					Token
					<input
						className="field code"
						type="password"
						autoComplete="current-password"
						value={value}
						onChange={(event) => setValue(event.target.value)}
					/>
				</label>
				{token() && !busy && (
					<p role="alert" className="text-sm text-bad">
						The server does not know the token that this browser has. Look whether all of it was copied, or ask for
						another.
					</p>
				)}
				<Button kind="primary" type="submit" busy={busy} disabled={!value.trim()}>
					{busy ? 'Signing in' : 'Sign in'}
				</Button>
			</form>
		</main>
	);
}
