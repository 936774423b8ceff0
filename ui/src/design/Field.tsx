import { type InputHTMLAttributes, type ReactNode, useId } from "react";

type TextFieldProps = InputHTMLAttributes<HTMLInputElement> & {
  label: string;
  hint?: ReactNode;
  wrong?: string | undefined;
};

export function TextField({ label, hint, wrong, ...rest }: TextFieldProps) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        className="input"
        aria-invalid={wrong !== undefined}
        aria-describedby={`${id}-hint`}
        {...rest}
      />
      <span id={`${id}-hint`} className={wrong === undefined ? "hint" : "wrong"}>
        {wrong ?? hint}
      </span>
    </div>
  );
}
