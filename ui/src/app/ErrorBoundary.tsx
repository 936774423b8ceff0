import { Component, type ReactNode } from "react";
import { Button } from "../design/Button";

interface BoundaryState {
  error: Error | null;
}

/** Shows an error in place of a page that crashes. A new `resetKey` renders the children again. */
export class ErrorBoundary extends Component<{ resetKey: string; children: ReactNode }, BoundaryState> {
  override state: BoundaryState = { error: null };

  static getDerivedStateFromError(error: Error): BoundaryState {
    return { error };
  }

  override componentDidUpdate(previous: { resetKey: string }): void {
    if (previous.resetKey !== this.props.resetKey && this.state.error !== null) this.setState({ error: null });
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <div className="page">
        <div className="notice error stack" role="alert">
          <h2>This page has crashed</h2>
          <code>{error.message}</code>
          <span>
            <Button onClick={() => window.location.reload()}>Reload</Button>
          </span>
        </div>
      </div>
    );
  }
}
