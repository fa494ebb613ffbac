// What breaks says so in its place, and the rest of the app goes on.
import { Component, type ReactNode } from 'react';
import { Failure } from './parts';

interface Props {
	children: ReactNode;
	/** What is shown: what broke in one thing is not said of the next. */
	of?: string;
}

export class Safe extends Component<Props, { error: unknown; of: string | undefined }> {
	override state = { error: null as unknown, of: this.props.of };
	static getDerivedStateFromError(error: unknown) {
		return { error };
	}
	static getDerivedStateFromProps({ of }: Props, state: { of: string | undefined }) {
		return of === state.of ? null : { error: null, of };
	}
	override render() {
		if (this.state.error === null) return this.props.children;
		return (
			<div className="p-4">
				<Failure error={this.state.error} again={() => this.setState({ error: null })} />
			</div>
		);
	}
}
