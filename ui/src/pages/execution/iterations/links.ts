export function iterationLink(execution: string, run: string, index: number): string {
  return `/executions/${execution}/iteration?run=${encodeURIComponent(run)}&index=${index}`;
}
