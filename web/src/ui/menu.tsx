// Menus: radix does the keyboard, the focus and the place.
import * as Radix from '@radix-ui/react-dropdown-menu';
import type { ReactNode } from 'react';
import { Icon, type IconName } from './icons';

export interface MenuItem {
	label: ReactNode;
	hint?: ReactNode;
	icon?: IconName;
	checked?: boolean;
	danger?: boolean;
	disabled?: boolean;
	onSelect: () => void;
}

export function Menu({
	trigger,
	items,
	label,
	align = 'end',
}: {
	trigger: ReactNode;
	items: (MenuItem | 'line')[];
	label: string;
	align?: 'start' | 'end';
}) {
	return (
		<Radix.Root modal={false}>
			<Radix.Trigger asChild>{trigger}</Radix.Trigger>
			<Radix.Portal>
				<Radix.Content
					aria-label={label}
					align={align}
					sideOffset={4}
					collisionPadding={8}
					className="appear z-50 max-h-[60vh] min-w-44 overflow-auto rounded-md border border-line bg-surface p-1 text-sm shadow-overlay"
				>
					{items.map((item, at) =>
						item === 'line' ? (
							<Radix.Separator key={at} className="my-1 h-px bg-line" />
						) : (
							<Radix.Item
								key={at}
								disabled={item.disabled ?? false}
								onSelect={item.onSelect}
								className={`target flex min-h-7 items-center gap-2 rounded-sm px-2 py-1 outline-none select-none data-disabled:opacity-50 data-highlighted:bg-sunken ${item.danger ? 'text-bad' : ''}`}
							>
								{item.icon && <Icon name={item.icon} size={14} />}
								<span className="min-w-0 flex-1 truncate">{item.label}</span>
								{item.hint && <span className="text-xs text-muted">{item.hint}</span>}
								{item.checked && <Icon name="check" size={14} className="text-accent" />}
							</Radix.Item>
						),
					)}
				</Radix.Content>
			</Radix.Portal>
		</Radix.Root>
	);
}
