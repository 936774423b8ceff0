import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { get } from "../api/client";
import { ApiProblem } from "../api/problem";
import { heldToken, onTokenChange, refusedBecause } from "../api/token";
import { useResource } from "../api/useResource";
import { Failed } from "../design/Failed";
import { Toasts } from "../design/Toasts";
import { Page } from "../routes";
import { ErrorBoundary } from "./ErrorBoundary";
import { Header } from "./Header";
import { Help } from "./Help";
import { SignIn } from "./SignIn";
import { useKeys } from "./keyboard";
import { navigate, usePlace } from "./router";
import { type Session, SessionContext } from "./session";

export function App() {
  const token = useSyncExternalStore(onTokenChange, heldToken);
  const who = useResource<Session>(`whoami ${token ?? ""}`, (signal) => get("/whoami", {}, signal));
  if (who.error instanceof ApiProblem && who.error.status === 401) {
    return <SignIn error={refusedBecause()} />;
  }
  if (who.error !== undefined) {
    return (
      <main className="page">
        <Failed error={who.error} onRetry={who.reload} />
      </main>
    );
  }
  // Nothing is drawn before it is known who asks: it takes a moment, and no page has to be drawn twice.
  if (who.data === undefined) return null;
  return (
    <SessionContext value={who.data}>
      <Shell />
    </SessionContext>
  );
}

function Shell() {
  const place = usePlace();
  const search = useRef<HTMLInputElement>(null);
  const [helping, setHelping] = useState(false);
  const keys = useMemo(
    () => ({
      "/": () => search.current?.focus(),
      "?": () => setHelping(true),
      "g e": () => navigate("/executions"),
      "g p": () => navigate("/playbooks"),
      "g t": () => navigate("/tools"),
      "g c": () => navigate("/credentials"),
      "g w": () => navigate("/workers"),
      "g h": () => navigate("/health"),
    }),
    [],
  );
  useKeys(keys);
  useEffect(() => {
    if (place.path === "/") navigate("/executions", { replace: true });
  }, [place.path]);
  return (
    <div className="app">
      <a className="skip" href="#main">
        To the content
      </a>
      <Header path={place.path} search={search} onHelp={() => setHelping(true)} />
      <main className="main" id="main" tabIndex={-1}>
        <ErrorBoundary at={place.path}>
          <Page place={place} />
        </ErrorBoundary>
      </main>
      {helping && <Help onClose={() => setHelping(false)} />}
      <Toasts />
    </div>
  );
}
