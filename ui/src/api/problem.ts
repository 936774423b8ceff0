/** What the server says when it refuses, as an error that a page can show. */

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
    super(body.detail ?? body.title ?? `the server answers ${status}`);
    this.name = "ApiProblem";
    this.status = status;
    this.code = body.code ?? "unknown";
    this.problems = body.problems ?? [];
    this.fields = body.fields ?? [];
  }
}

/** There was no answer at all: the server is away, or the network is. */
export class Unreachable extends Error {
  constructor(cause: unknown) {
    super("the server does not answer", { cause });
    this.name = "Unreachable";
  }
}

export async function problemOf(answer: Response): Promise<ApiProblem> {
  let body: ProblemBody = {};
  try {
    body = (await answer.json()) as ProblemBody;
  } catch {
    // Something between us and the server has answered: its status is all there is to tell.
  }
  return new ApiProblem(answer.status, body);
}

export function wasAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

export function inWords(error: unknown): string {
  if (error instanceof ApiProblem && error.fields.length > 0) {
    return error.fields.map((field) => `${field.name}: ${field.message}`).join("; ");
  }
  return error instanceof Error ? error.message : String(error);
}
