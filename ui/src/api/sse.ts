/** Parses server-sent events from text that arrives in chunks. It does no I/O. */

export interface ServerEvent {
  event: string;
  data: string;
}

export class EventParser {
  private rest = "";
  private event = "";
  private data: string[] = [];
  lastId: string | null = null;
  retryMs = 1000;

  /** Returns the events that this chunk completes. */
  feed(chunk: string): ServerEvent[] {
    const lines = (this.rest + chunk).split("\n");
    this.rest = lines.pop() ?? "";
    const found: ServerEvent[] = [];
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (this.data.length > 0) found.push({ event: this.event || "message", data: this.data.join("\n") });
        this.event = "";
        this.data = [];
      } else this.field(line);
    }
    return found;
  }

  private field(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) return; // A comment, sent to keep the connection alive.
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.event = value;
    else if (name === "data") this.data.push(value);
    else if (name === "id") this.lastId = value;
    else if (name === "retry" && /^\d+$/.test(value)) this.retryMs = Number(value);
  }
}
