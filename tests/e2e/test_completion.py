"""Completion in the shell: ids, steps, files, paths, triggers and kinds of tools, as bash and zsh ask for them."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.processes import Workspace
from tests.playbooks import HEAD

TEXT = HEAD.replace("path: t", "path: shop/sync") + (
    "triggers:\n- {name: nightly, kind: cron, cron: '0 6 * * *'}\n"
    "workflow:\n- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: second}]}\n- {step: second, tool: {kind: noop}}\n"
)


def offered(own: Workspace, line: str, shell: str = "bash") -> list[str]:
    """What is offered for the last word of a line."""
    words = line.split(" ")
    own.environment |= {"_NOETL_COMPLETE": f"complete_{shell}", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    own.environment["_TYPER_COMPLETE_ARGS"] = line
    done = own.call()
    for name in ("_NOETL_COMPLETE", "COMP_WORDS", "COMP_CWORD", "_TYPER_COMPLETE_ARGS"):
        del own.environment[name]
    assert (done.returncode, done.stderr) == (0, "")
    return [line for line in done.stdout.split("\n") if line] if shell == "bash" else [done.stdout]


def test_words_of_commands_are_completed(tmp_path: Path) -> None:
    own = Workspace(tmp_path)
    assert offered(own, "noetl show ") == []  # no database: no message, and none is made
    assert not own.db.exists()
    file = own.write(TEXT)
    own.call("register", file)
    code, shown = own.json("run", file)
    assert code == 0
    id = shown["execution_id"]
    db = f"--db {own.db}"
    assert offered(own, f"noetl show {db} ") == ["last", id]
    assert offered(own, f"noetl logs {db} {id[:8]}") == [id]
    assert offered(own, f"noetl output {db} last se") == ["second"]
    assert offered(own, f"noetl retry {db} last --step ") == ["start", "second"]
    assert offered(own, f"noetl run {db} sho") == ["shop/sync"]
    assert offered(own, f"noetl triggers show {db} ") == ["shop/sync:nightly"]
    assert offered(own, "noetl tools po") == ["postgres"]
    assert offered(own, f"noetl check {file.parent}/t") == [str(file)]
    assert offered(own, "noetl sho") == ["show"]
    assert "shop/sync ok" in offered(own, f"noetl show {db} {id[:8]}", "zsh")[0]
    assert offered(own, "noetl show --server http://127.0.0.1:9 ") == []  # no server answers
