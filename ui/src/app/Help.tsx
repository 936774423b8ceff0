import { Dialog } from "../design/Dialog";

const KEYS: [string[], string][] = [
  [["/"], "search"],
  [["g", "e"], "executions"],
  [["g", "p"], "playbooks"],
  [["g", "t"], "tools"],
  [["g", "c"], "credentials"],
  [["g", "w"], "workers"],
  [["g", "h"], "health"],
  [["←", "→"], "on an execution: one fact back or on"],
  [["[", "]"], "a hundred facts back or on"],
  [["Space"], "on an execution: play, stop"],
  [["l"], "on an execution: go live"],
  [["?"], "this list"],
];

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <table className="table">
        <tbody>
          {KEYS.map(([keys, words]) => (
            <tr key={words}>
              <td className="row">
                {keys.map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </td>
              <td>{words}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  );
}
