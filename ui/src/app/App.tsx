import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { request } from "../api/client";
import { ApiProblem } from "../api/problem";
import { onSessionChange, sessionError, sessionVersion } from "../api/session";
import { useResource } from "../api/useResource";
import { ErrorNotice } from "../design/ErrorNotice";
import { Toasts } from "../design/Toasts";
import { useZone } from "../design/timeZone";
import { Page } from "../routes";
import { ErrorBoundary } from "./ErrorBoundary";
import { Header } from "./Header";
import { KeyboardHelp } from "./KeyboardHelp";
import { SignIn } from "./SignIn";
import { useShortcuts } from "./keyboard";
import { navigate, useRouteLocation } from "./router";
import { type Session, SessionContext } from "./session";

export function App() {
  const version = useSyncExternalStore(onSessionChange, sessionVersion);
  const session = useResource<Session>(`whoami ${version}`, (signal) => request("/whoami", { signal, signIn: true }));
  if (session.error instanceof ApiProblem && session.error.status === 401) {
    return <SignIn error={sessionError()} />;
  }
  if (session.error !== undefined) {
    return (
      <main className="page">
        <ErrorNotice error={session.error} onRetry={session.reload} />
      </main>
    );
  }
  // Render nothing until the session is known. This takes a moment and avoids rendering the page twice.
  if (session.data === undefined) return null;
  return (
    <SessionContext value={session.data}>
      <Shell />
    </SessionContext>
  );
}

function Shell() {
  const location = useRouteLocation();
  const zone = useZone(); // all times of the page change with it
  const search = useRef<HTMLInputElement>(null);
  const [helpOpen, setHelpOpen] = useState(false);
  const shortcuts = useMemo(
    () => ({
      "/": () => search.current?.focus(),
      "?": () => setHelpOpen(true),
      "g e": () => navigate("/executions"),
      "g a": () => navigate("/approvals"),
      "g p": () => navigate("/playbooks"),
      "g r": () => navigate("/triggers"),
      "g s": () => navigate("/saved"),
      "g t": () => navigate("/tools"),
      "g c": () => navigate("/credentials"),
      "g w": () => navigate("/workers"),
      "g h": () => navigate("/health"),
    }),
    [],
  );
  useShortcuts(shortcuts);
  useEffect(() => {
    if (location.path === "/") navigate("/executions", { replace: true });
  }, [location.path]);
  return (
    <div className="app">
      <a className="skip" href="#main">
        Skip to content
      </a>
      <Header path={location.path} search={search} onHelp={() => setHelpOpen(true)} />
      <main className="main" id="main" tabIndex={-1}>
        <ErrorBoundary key={zone} resetKey={location.path}>
          <Page location={location} />
        </ErrorBoundary>
      </main>
      {helpOpen && <KeyboardHelp onClose={() => setHelpOpen(false)} />}
      <Toasts />
    </div>
  );
}
