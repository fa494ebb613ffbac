// A new environment: a name and a repository are enough to begin with; a copy has the rest already.
import { type FormEvent, useState } from 'react';
import { send } from '../../api/client';
import { queries } from '../../api/queries';
import type { Environment } from '../../api/types';
import { Button, Dialog, Failure } from '../../ui/parts';
import { go, paths } from '../../ui/router';
import { Field } from './fields';

export default function NewEnvironment({
	close,
	recipe,
	from,
}: {
	close: () => void;
	recipe?: Environment;
	from?: string;
}) {
	const [name, setName] = useState(from ? `${from}-copy` : '');
	const [url, setUrl] = useState(recipe?.repos?.[0]?.url ?? '');
	const [error, setError] = useState<unknown>(null);
	const [busy, setBusy] = useState(false);
	const make = async (event: FormEvent) => {
		event.preventDefault();
		setBusy(true);
		setError(null);
		const repos = [{ ...recipe?.repos?.[0], url: url.trim() }, ...(recipe?.repos?.slice(1) ?? [])];
		try {
			await send('PUT', `/environments/${encodeURIComponent(name.trim())}`, { ...recipe, repos });
			await queries.invalidateQueries({ queryKey: ['environments'] });
			close();
			go(paths.environment(name.trim(), 'recipe'));
		} catch (failure) {
			setError(failure);
			setBusy(false);
		}
	};
	return (
		<Dialog open onClose={close} label={from ? `Copy ${from}` : 'New environment'}>
			<form onSubmit={make} className="flex flex-col gap-4 p-4">
				<h2 className="text-lg font-semibold">{from ? `A copy of ${from}` : 'New environment'}</h2>
				<Field label="Name" hint="Letters, digits, dots, dashes and underscores">
					<input
						className="field"
						data-autofocus
						required
						value={name}
						onChange={(event) => setName(event.target.value)}
					/>
				</Field>
				<Field label="Repository" hint="An address that git can clone, or a path on the server">
					<input
						className="field code"
						required
						placeholder="https://forge.example.com/team/shop.git"
						value={url}
						onChange={(event) => setUrl(event.target.value)}
					/>
				</Field>
				{Boolean(error) && <Failure error={error} />}
				<div className="flex justify-end gap-2">
					<Button kind="quiet" onClick={close}>
						Cancel
					</Button>
					<Button kind="primary" type="submit" busy={busy} disabled={!name.trim() || !url.trim()}>
						{busy ? 'Reading the repository' : 'Make it'}
					</Button>
				</div>
			</form>
		</Dialog>
	);
}
