/** Downloads a file of the API. A plain link could not send the token. */

import { toast } from "../design/toasts";
import { type Query, send } from "./client";
import { errorMessage } from "./problem";

export async function download(path: string, query: Query, name: string): Promise<void> {
  try {
    const response = await send(path, { query });
    const url = URL.createObjectURL(await response.blob());
    const link = document.createElement("a");
    link.href = url;
    link.download = name.replaceAll(/[^\w.-]+/g, "-");
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser reads it after the click
  } catch (error) {
    toast(errorMessage(error), "error");
  }
}
