import { Button } from "./Button";
import { toast } from "./toasts";

/** A line for the shell, to be copied. */
export function Command({ text }: { text: string }) {
  return (
    <span className="command">
      <code tabIndex={0}>{text}</code>
      <Button look="quiet" small aria-label={`Copy: ${text}`} onClick={() => void copy(text)}>
        Copy
      </Button>
    </span>
  );
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    toast("The browser does not allow copying here", "error");
  }
}
