import { type Ref, useEffect, useRef } from "react";
import { Button } from "../design/Button";
import { setZone, useZone } from "../design/timeZone";
import { Search } from "./Search";
import { Link } from "./router";
import { signOut, useHasScope, useSession } from "./session";
import { type Theme, setTheme, useTheme } from "./theme";

const PAGES = [
  { to: "/executions", label: "Executions" },
  { to: "/approvals", label: "Approvals" },
  { to: "/playbooks", label: "Playbooks" },
  { to: "/triggers", label: "Triggers" },
  { to: "/schedule", label: "Schedule" },
  { to: "/saved", label: "Saved" },
  { to: "/tools", label: "Tools" },
  { to: "/credentials", label: "Credentials" },
  { to: "/workers", label: "Workers" },
  { to: "/limits", label: "Limits" },
  { to: "/health", label: "Health" },
  { to: "/audit", label: "Audit", scope: "admin" },
];

const NEXT: Record<Theme, { theme: Theme; icon: string; label: string }> = {
  system: { theme: "light", icon: "◐", label: "system" },
  light: { theme: "dark", icon: "☀", label: "light" },
  dark: { theme: "system", icon: "☾", label: "dark" },
};

function ThemeSwitch() {
  const { theme, icon, label } = NEXT[useTheme()];
  return (
    <Button variant="quiet" icon aria-label={`Theme: ${label}. Change theme`} title={`Theme: ${label}`} onClick={() => setTheme(theme)}>
      {icon}
    </Button>
  );
}

function ZoneSwitch() {
  const zone = useZone();
  const other = zone === "UTC" ? "local" : "UTC";
  return (
    <Button variant="quiet" small aria-label={`Times: ${zone}. Show ${other} times`} title={`Times: ${zone}`} onClick={() => setZone(other)}>
      {zone === "UTC" ? "UTC" : "Local"}
    </Button>
  );
}

interface HeaderProps {
  path: string;
  search: Ref<HTMLInputElement>;
  onHelp: () => void;
}

export function Header({ path, search, onHelp }: HeaderProps) {
  const session = useSession();
  const isAdmin = useHasScope("admin");
  const nav = useRef<HTMLElement>(null);
  // On a narrow screen the names of the pages scroll sideways.
  useEffect(() => {
    const link = nav.current?.querySelector<HTMLElement>("[aria-current]");
    if (nav.current !== null && link != null) nav.current.scrollLeft = link.offsetLeft - (nav.current.clientWidth - link.offsetWidth) / 2;
  }, [path]);
  return (
    <header className="header">
      <Link to="/executions" className="brand" aria-label="NoETL, all executions">
        <img src="/ui/favicon.svg" alt="" width={24} height={24} />
        <span>NoETL</span>
      </Link>
      <nav ref={nav} className="nav" aria-label="Pages">
        {PAGES.filter(({ scope }) => scope === undefined || isAdmin).map(({ to, label }) => (
          <Link key={to} to={to} aria-current={path.startsWith(to) ? "page" : undefined}>
            {label}
          </Link>
        ))}
      </nav>
      <Search field={search} />
      <ZoneSwitch />
      <ThemeSwitch />
      <Button variant="quiet" icon aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" onClick={onHelp}>
        ?
      </Button>
      {!session.open && (
        <Button variant="quiet" small title={`Signed in as ${session.name}`} onClick={() => void signOut()}>
          Sign out
        </Button>
      )}
    </header>
  );
}
