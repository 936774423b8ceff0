import type { ButtonHTMLAttributes } from "react";

type Variant = "normal" | "primary" | "danger" | "quiet";

export type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  variant?: Variant;
  small?: boolean;
  icon?: boolean; // shows an icon only: needs an aria-label
};

export function Button({ variant = "normal", small, icon, className, type, ...rest }: ButtonProps) {
  const names = ["button", variant !== "normal" && variant, small && "small", icon && "icon", className];
  return <button type={type ?? "button"} className={names.filter(Boolean).join(" ")} {...rest} />;
}
