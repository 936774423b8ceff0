import type { ReactNode } from "react";
import { Command } from "./Command";

interface EmptyProps {
  title: string;
  children?: ReactNode;
  command?: string; // what to type to have something here
  action?: ReactNode;
}

export function Empty({ title, children, command, action }: EmptyProps) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children !== undefined && <div>{children}</div>}
      {command !== undefined && <Command text={command} />}
      {action}
    </div>
  );
}
