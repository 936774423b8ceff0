import type { ButtonHTMLAttributes } from "react";

type Look = "normal" | "primary" | "danger" | "quiet";

export type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  look?: Look;
  small?: boolean;
  icon?: boolean; // it shows a sign only: give it an aria-label
};

export function Button({ look = "normal", small, icon, className, type, ...rest }: ButtonProps) {
  const names = ["button", look !== "normal" && look, small && "small", icon && "icon", className];
  return <button type={type ?? "button"} className={names.filter(Boolean).join(" ")} {...rest} />;
}
