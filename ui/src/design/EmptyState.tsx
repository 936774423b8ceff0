import type { ReactNode } from "react";
import { ShellCommand } from "./ShellCommand";

interface EmptyStateProps {
  title: string;
  children?: ReactNode;
  command?: string; // a shell command that adds content
  action?: ReactNode;
  fullPage?: boolean; // the only content of the page: its title is the page heading
}

export function EmptyState({ title, children, command, action, fullPage = false }: EmptyStateProps) {
  const Heading = fullPage ? "h1" : "h2";
  return (
    <div className="empty">
      <Heading>{title}</Heading>
      {children !== undefined && <div>{children}</div>}
      {command !== undefined && <ShellCommand text={command} />}
      {action}
    </div>
  );
}
