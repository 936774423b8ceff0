import type { Ref } from "react";
import { dropToken } from "../api/token";
import { Button } from "../design/Button";
import { Search } from "./Search";
import { Link } from "./router";
import { useSession } from "./session";
import { type Theme, chooseTheme, useTheme } from "./theme";

const PAGES = [
  { to: "/executions", label: "Executions" },
  { to: "/playbooks", label: "Playbooks" },
  { to: "/tools", label: "Tools" },
  { to: "/credentials", label: "Credentials" },
  { to: "/workers", label: "Workers" },
  { to: "/health", label: "Health" },
];

const NEXT: Record<Theme, { theme: Theme; sign: string; says: string }> = {
  system: { theme: "light", sign: "◐", says: "as the system" },
  light: { theme: "dark", sign: "☀", says: "light" },
  dark: { theme: "system", sign: "☾", says: "dark" },
};

function ThemeSwitch() {
  const { theme, sign, says } = NEXT[useTheme()];
  return (
    <Button look="quiet" icon aria-label={`Theme: ${says}. Change it`} title={`Theme: ${says}`} onClick={() => chooseTheme(theme)}>
      {sign}
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
  return (
    <header className="header">
      <Link to="/executions" className="brand" aria-label="NoETL, to the executions">
        <img src="/ui/favicon.svg" alt="" width={24} height={24} />
        <span>NoETL</span>
      </Link>
      <nav className="nav" aria-label="Pages">
        {PAGES.map(({ to, label }) => (
          <Link key={to} to={to} aria-current={path.startsWith(to) ? "page" : undefined}>
            {label}
          </Link>
        ))}
      </nav>
      <Search field={search} />
      <ThemeSwitch />
      <Button look="quiet" icon aria-label="Keys" title="Keys (?)" onClick={onHelp}>
        ?
      </Button>
      {!session.open && (
        <Button look="quiet" small title={`Signed in as ${session.name}`} onClick={() => dropToken()}>
          Sign out
        </Button>
      )}
    </header>
  );
}
