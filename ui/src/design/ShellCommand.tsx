import { Button } from "./Button";
import { toast } from "./toasts";

/** A shell command with a button that copies it. */
export function ShellCommand({ text }: { text: string }) {
  return (
    <span className="command">
      <code tabIndex={0}>{text}</code>
      <Button variant="quiet" small aria-label={`Copy: ${text}`} onClick={() => void copyToClipboard(text)}>
        Copy
      </Button>
    </span>
  );
}

export async function copyToClipboard(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    toast("The browser does not allow access to the clipboard", "error");
  }
}
