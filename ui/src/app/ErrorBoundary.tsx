import { Component, type ReactNode } from "react";
import { Button } from "../design/Button";

interface Caught {
  error: Error | null;
}

/** A page that breaks leaves the rest of the UI standing. `at` makes a new try when the place changes. */
export class ErrorBoundary extends Component<{ at: string; children: ReactNode }, Caught> {
  override state: Caught = { error: null };

  static getDerivedStateFromError(error: Error): Caught {
    return { error };
  }

  override componentDidUpdate(before: { at: string }): void {
    if (before.at !== this.props.at && this.state.error !== null) this.setState({ error: null });
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <div className="page">
        <div className="notice error stack" role="alert">
          <h2>This page has broken</h2>
          <code>{error.message}</code>
          <span>
            <Button onClick={() => window.location.reload()}>Load it again</Button>
          </span>
        </div>
      </div>
    );
  }
}
