import type { ReactNode } from "react";
import { Command } from "./Command";

interface EmptyProps {
  title: string;
  children?: ReactNode;
  command?: string; // what to type to have something here
  action?: ReactNode;
  whole?: boolean; // there is nothing else on the page, not even its heading
}

export function Empty({ title, children, command, action, whole = false }: EmptyProps) {
  const Heading = whole ? "h1" : "h2";
  return (
    <div className="empty">
      <Heading>{title}</Heading>
      {children !== undefined && <div>{children}</div>}
      {command !== undefined && <Command text={command} />}
      {action}
    </div>
  );
}
