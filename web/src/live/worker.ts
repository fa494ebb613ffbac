// The worker that has the connection.
import { Connection, type FromConnection, type ToConnection } from './connection';

const scope = self as unknown as {
	postMessage(message: FromConnection, transfer?: Transferable[]): void;
	onmessage: ((event: MessageEvent<ToConnection>) => void) | null;
};
const connection = new Connection((message, transfer) => scope.postMessage(message, transfer ?? []));
scope.onmessage = (event) => connection.handle(event.data);
