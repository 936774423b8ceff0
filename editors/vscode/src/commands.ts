/** The command lines of the actions, without anything of the editor, so that they can be tested. */

export type Action = "run" | "debug" | "check" | "test" | "show";

/** One argument for a POSIX shell, or for PowerShell and cmd on Windows. */
export function quoted(text: string, windows: boolean): string {
  if (/^[\w./@:=+-]+$/.test(text)) return text;
  return windows ? `"${text.replace(/"/g, '""')}"` : `'${text.replace(/'/g, "'\\''")}'`;
}

/** What the terminal runs. `target` is a file, or the id of an execution; `name` is a test. */
export function commandLine(program: string, action: Action, target: string, name?: string, windows = false): string {
  const noetl = quoted(program, windows);
  const file = quoted(target, windows);
  switch (action) {
    case "run":
      return `${noetl} run ${file}`;
    case "debug":
      return `${noetl} debug ${file}`;
    case "check":
      return `${noetl} check ${file}`;
    case "test":
      return `${noetl} test ${file}${name === undefined ? "" : ` --only ${quoted(name, windows)}`}`;
    case "show":
      return `${noetl} show ${file}`;
  }
}

/** The test file of a playbook, and the file itself if it is one. */
export function testFile(file: string): string {
  return /\.test\.ya?ml$/.test(file) ? file : file.replace(/\.ya?ml$/, ".test.yaml");
}
