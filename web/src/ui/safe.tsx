// What breaks says so in its place, and the rest of the app goes on.
import { Component, type ReactNode } from 'react';
import { Failure } from './parts';

export class Safe extends Component<{ children: ReactNode }, { error: unknown }> {
	override state = { error: null as unknown };
	static getDerivedStateFromError(error: unknown) {
		return { error };
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
