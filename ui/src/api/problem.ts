/** Errors of the API, as a page shows them. */

export interface FieldProblem {
  name: string;
  message: string;
}

export interface ProblemBody {
  title?: string;
  status?: number;
  detail?: string;
  code?: string;
  problems?: unknown[];
  fields?: FieldProblem[];
}

export class ApiProblem extends Error {
  readonly status: number;
  readonly code: string;
  readonly problems: unknown[];
  readonly fields: FieldProblem[];

  constructor(status: number, body: ProblemBody) {
    super(body.detail ?? body.title ?? `the server responded with status ${status}`);
    this.name = "ApiProblem";
    this.status = status;
    this.code = body.code ?? "unknown";
    this.problems = body.problems ?? [];
    this.fields = body.fields ?? [];
  }
}

/** There was no response: the server or the network is unreachable. */
export class Unreachable extends Error {
  constructor(cause: unknown) {
    super("the server does not answer", { cause });
    this.name = "Unreachable";
  }
}

export async function problemFrom(response: Response): Promise<ApiProblem> {
  let body: ProblemBody = {};
  try {
    body = (await response.json()) as ProblemBody;
  } catch {
    // A proxy has responded without a problem document: only its status is known.
  }
  return new ApiProblem(response.status, body);
}

export function wasAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

export function errorMessage(error: unknown): string {
  if (error instanceof ApiProblem && error.fields.length > 0) {
    return error.fields.map((field) => `${field.name}: ${field.message}`).join("; ");
  }
  return error instanceof Error ? error.message : String(error);
}
