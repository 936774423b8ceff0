import { sendCommand } from "../../../api/commands";

/** Runs one failed iteration again; others that failed stay failed. Returns whether the server has accepted it. */
export function retryIteration(execution: string, step: string, index: number): Promise<boolean> {
  return sendCommand(execution, "retry", { step, iterations: [index] });
}
