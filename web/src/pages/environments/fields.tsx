// The common parts of a recipe as fields. What is not among them stays as it is.
import type { ReactNode } from 'react';
import type { Environment } from '../../api/types';
import { Button, IconButton } from '../../ui/parts';
import { ModelField } from './recipe';

interface Props {
	recipe: Environment;
	change: (part: Partial<Environment>) => void;
	fixed: boolean;
}

export function Field({ label, hint, children }: { label: string; hint?: ReactNode; children: ReactNode }) {
	return (
		// biome-ignore lint/a11y/noLabelWithoutControl: the control is what is inside.
		<label className="flex flex-col gap-1">
			<span className="text-sm font-medium">{label}</span>
			{children}
			{hint && <span className="text-xs text-muted">{hint}</span>}
		</label>
	);
}

export function Fields({ recipe, change, fixed }: Props) {
	const repo = recipe.repos?.[0] ?? { url: '' };
	const setRepo = (part: Partial<typeof repo>) =>
		change({ repos: [{ ...repo, ...part }, ...(recipe.repos?.slice(1) ?? [])] });
	return (
		<div className="flex flex-col gap-5">
			<div className="grid gap-3 md:grid-cols-[minmax(0,1fr)_200px]">
				<Field label="Repository">
					<input
						className="field code"
						readOnly={fixed}
						value={repo.url}
						onChange={(event) => setRepo({ url: event.target.value })}
					/>
				</Field>
				<Field label="Branch" hint="The default one where empty">
					<input
						className="field code"
						readOnly={fixed}
						value={repo.branch ?? ''}
						onChange={(event) => setRepo({ branch: event.target.value || null })}
					/>
				</Field>
			</div>
			<div className="grid gap-3 md:grid-cols-2">
				<Field label="Base" hint="host, tar:PATH, oci:NAME, dockerfile:PATH or devcontainer">
					<input
						className="field code"
						readOnly={fixed}
						value={recipe.base ?? ''}
						onChange={(event) => change({ base: event.target.value })}
					/>
				</Field>
				<Field label="Model">
					<ModelField fixed={fixed} value={recipe.model ?? ''} onChange={(model) => change({ model: model || null })} />
				</Field>
			</div>
			<Commands
				title="Set-up"
				hint="Run in order when the image is built"
				name="setup"
				recipe={recipe}
				change={change}
				fixed={fixed}
			/>
			<Checks recipe={recipe} change={change} fixed={fixed} />
			<Field label="Instructions" hint="What the agent is told beside the repository's own instructions">
				<textarea
					className="field min-h-24 resize-y"
					readOnly={fixed}
					value={recipe.instructions ?? ''}
					onChange={(event) => change({ instructions: event.target.value || null })}
				/>
			</Field>
			<div className="flex flex-wrap gap-x-6 gap-y-2">
				<Toggle
					label="Remember across sessions"
					on={recipe.memory ?? true}
					fixed={fixed}
					onChange={(memory) => change({ memory })}
				/>
				<Toggle
					label="The agent may ask questions"
					on={recipe.questions ?? true}
					fixed={fixed}
					onChange={(questions) => change({ questions })}
				/>
				<Toggle
					label="A person approves each delivery"
					on={recipe.approve?.includes('delivery') ?? false}
					fixed={fixed}
					onChange={(on) => change({ approve: on ? ['delivery'] : [] })}
				/>
			</div>
			<p className="text-xs text-muted">
				Services, warm-up steps, limits, policies, hooks, skills, MCP servers and uses of secrets are in the JSON.
			</p>
		</div>
	);
}

function Toggle({
	label,
	on,
	fixed,
	onChange,
}: {
	label: string;
	on: boolean;
	fixed: boolean;
	onChange: (on: boolean) => void;
}) {
	return (
		<label className="target flex items-center gap-2 text-sm">
			<input
				type="checkbox"
				className="size-4 accent-(--accent)"
				disabled={fixed}
				checked={on}
				onChange={(event) => onChange(event.target.checked)}
			/>
			{label}
		</label>
	);
}

function Commands({
	title,
	hint,
	name,
	recipe,
	change,
	fixed,
}: Props & { title: string; hint: string; name: 'setup' | 'warm' }) {
	const steps = recipe[name] ?? [];
	const set = (at: number, run: string) => change({ [name]: steps.with(at, { ...steps[at], run }) });
	return (
		<fieldset className="flex flex-col gap-1.5">
			<legend className="mb-1 text-sm font-medium">
				{title} <span className="text-xs font-normal text-muted">{hint}</span>
			</legend>
			{steps.length === 0 && fixed && <p className="text-sm text-muted">None</p>}
			{steps.map((step, at) => (
				<div key={at} className="flex items-center gap-1">
					<input
						className="field code"
						aria-label={`Step ${at + 1}`}
						readOnly={fixed}
						value={step.run}
						onChange={(event) => set(at, event.target.value)}
					/>
					{!fixed && (
						<IconButton
							icon="cross"
							size={12}
							label={`Remove step ${at + 1}`}
							onClick={() => change({ [name]: steps.toSpliced(at, 1) })}
						/>
					)}
				</div>
			))}
			{!fixed && (
				<Button
					kind="quiet"
					icon="plus"
					className="self-start"
					onClick={() => change({ [name]: [...steps, { run: '' }] })}
				>
					Add a step
				</Button>
			)}
		</fieldset>
	);
}

function Checks({ recipe, change, fixed }: Props) {
	const checks = recipe.checks ?? [];
	const set = (at: number, part: object) =>
		change({ checks: checks.map((one, index) => (index === at ? { ...one, ...part } : one)) });
	return (
		<fieldset className="flex flex-col gap-1.5">
			<legend className="mb-1 text-sm font-medium">
				Checks <span className="text-xs font-normal text-muted">Must pass before a turn is done</span>
			</legend>
			{checks.length === 0 && (
				<p className="text-sm text-muted">
					None: nothing tells the agent what it broke. Add how this repository is tested.
				</p>
			)}
			{checks.map((check, at) => (
				<div key={at} className="flex flex-wrap items-center gap-1 md:flex-nowrap">
					<input
						className="field w-36 shrink-0"
						aria-label={`Name of check ${at + 1}`}
						placeholder="test"
						readOnly={fixed}
						value={check.name}
						onChange={(event) => set(at, { name: event.target.value })}
					/>
					<input
						className="field code min-w-40 flex-1"
						aria-label={`Command of check ${at + 1}`}
						placeholder="npm test"
						readOnly={fixed}
						value={check.run}
						onChange={(event) => set(at, { run: event.target.value })}
					/>
					<input
						className="field w-28 shrink-0"
						aria-label={`How the output of check ${at + 1} is read`}
						placeholder="auto"
						readOnly={fixed}
						value={check.parser ?? ''}
						onChange={(event) => set(at, { parser: event.target.value || 'auto' })}
					/>
					{!fixed && (
						<IconButton
							icon="cross"
							size={12}
							label={`Remove check ${at + 1}`}
							onClick={() => change({ checks: checks.toSpliced(at, 1) })}
						/>
					)}
				</div>
			))}
			{!fixed && (
				<Button
					kind="quiet"
					icon="plus"
					className="self-start"
					onClick={() => change({ checks: [...checks, { name: '', run: '', parser: 'auto' }] })}
				>
					Add a check
				</Button>
			)}
		</fieldset>
	);
}
