import { Dialog } from "../design/Dialog";

const SHORTCUTS: [string[], string][] = [
  [["/"], "search"],
  [["g", "e"], "go to executions"],
  [["g", "a"], "go to approvals"],
  [["g", "p"], "go to playbooks"],
  [["g", "r"], "go to triggers"],
  [["g", "s"], "go to saved values"],
  [["g", "t"], "go to tools"],
  [["g", "c"], "go to credentials"],
  [["g", "w"], "go to workers"],
  [["g", "h"], "go to health"],
  [["←", "→"], "on an execution: previous or next fact"],
  [["[", "]"], "on an execution: 100 facts back or forward"],
  [["Space"], "on an execution: play or stop"],
  [["l"], "on an execution: follow the end of the log"],
  [["?"], "show this list"],
];

export function KeyboardHelp({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <table className="table">
        <tbody>
          {SHORTCUTS.map(([keys, action]) => (
            <tr key={action}>
              <td className="row">
                {keys.map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </td>
              <td>{action}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  );
}
