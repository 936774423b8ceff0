/** The actions of the execution page as commands of a terminal, HTTP requests and Python. */

export interface Action {
  name: string; // as on its button
  path: string; // of the request
  body: Record<string, unknown>;
  method?: "GET"; // POST unless it is named
  cli: string; // without the server
  python: string | null; // one line, with `session`; null: there is no function for it
}

export type Form = "CLI" | "curl" | "Python";

export const formsOf = (action: Action): readonly Form[] => (action.python === null ? ["CLI", "curl"] : ["CLI", "curl", "Python"]);

const server = (): string => window.location.origin;

/** A word of a shell command. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A value in Python: JSON, except for the three names. */
export function pythonOf(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(pythonOf).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([key, each]) => `${JSON.stringify(key)}: ${pythonOf(each)}`).join(", ")}}`;
  return JSON.stringify(value);
}

export function textOf(action: Action, form: Form): string {
  if (form === "CLI") return `${action.cli} --server ${server()}`;
  if (form === "curl") {
    const body = Object.keys(action.body).length === 0 ? "" : ` -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(action.body))}`;
    return `curl ${action.method === "GET" ? "" : "-X POST "}${quoted(`${server()}${action.path}`)}${body}`;
  }
  return [
    "import asyncio", "", "import noetl", "", "",
    "async def main():",
    `    async with noetl.connect(${JSON.stringify(server())}) as session:`,
    `        ${action.python ?? ""}`, "", "",
    "asyncio.run(main())", "",
  ].join("\n");
}

/** A command to an execution. `options`: of the command line; `call`: the arguments in Python. */
export function commandAction(name: string, id: string, command: string, body: Record<string, unknown> = {}, options = "", call = ""): Action {
  return {
    name,
    path: `/executions/${id}/${command}`,
    body,
    cli: `noetl ${command} ${id}${options}`,
    python: `await (await session.execution(${JSON.stringify(id)})).${command}(${call})`,
  };
}

export function signalAction(id: string, name: string, data: unknown): Action {
  const call = `${JSON.stringify(name)}, ${pythonOf(data)}`;
  const action = commandAction("Signal", id, "signal", { name, data }, "", call);
  return { ...action, cli: `noetl signal ${id} ${quoted(name)}${data == null ? "" : ` --data ${quoted(JSON.stringify(data))}`}` };
}

export function retryAction(id: string, step: string | null, fromStart = false): Action {
  const options = `${step === null ? "" : ` --step ${quoted(step)}`}${fromStart ? " --from-start" : ""}`;
  const call = [...(step === null ? [] : [JSON.stringify(step)]), ...(fromStart ? ["from_start=True"] : [])].join(", ");
  return commandAction("Retry failed parts", id, "retry", step === null ? {} : { step, from_start: fromStart }, options, call);
}

export function startAction(path: string, version: number | undefined, digest: string, workload: Record<string, unknown>): Action {
  const target = version === undefined ? path : `${path}@${version}`;
  const options = Object.entries(workload).map(([key, value]) => ` --set ${quoted(`${key}=${typeof value === "string" ? value : JSON.stringify(value)}`)}`).join("");
  return {
    name: "Run again",
    path: "/executions",
    body: { digest, workload },
    cli: `noetl run ${quoted(target)}${options}`,
    python: `await session.start(${JSON.stringify(target)}, workload=${pythonOf(workload)})`,
  };
}

/** `text`: an edited text; a command reads it from a file. `secrets`: the names of secret inputs; their values are not shown. */
export function forkAction(
  id: string, wanted: { text?: string; at?: number; from_step?: string; failed_only?: boolean }, secrets: readonly string[] = [],
): Action {
  const { text, at, from_step: step, failed_only: failedOnly } = wanted;
  const hidden = Object.fromEntries(secrets.map((name) => [name, "…"]));
  const options = [
    ...(text === undefined ? [] : ["--playbook playbook.yaml"]), ...(at === undefined ? [] : [`--at ${at}`]),
    ...(step === undefined ? [] : [`--from ${quoted(step)}`]), ...(failedOnly === true ? ["--failed-only"] : []),
    ...secrets.map((name) => `--secret ${quoted(name)}`), "--yes",
  ];
  const call = [
    ...(text === undefined ? [] : ['playbook="playbook.yaml"']), ...(at === undefined ? [] : [`at=${at}`]),
    ...(step === undefined ? [] : [`from_step=${JSON.stringify(step)}`]), ...(failedOnly === true ? ["failed_only=True"] : []),
    ...(secrets.length === 0 ? [] : [`secrets=${JSON.stringify(hidden)}`]),
  ];
  return {
    name: "Fork",
    path: `/executions/${id}/fork`,
    body: secrets.length === 0 ? wanted : { ...wanted, secrets: hidden },
    cli: `noetl fork ${id} ${options.join(" ")}`,
    python: `await (await session.execution(${JSON.stringify(id)})).fork(${call.join(", ")})`,
  };
}
