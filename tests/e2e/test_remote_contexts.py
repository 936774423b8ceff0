"""Where commands go, and who says so; tokens that are kept, used and never shown."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from noetl.secret import Secret
from noetl.session.connect import DatabaseTarget, Server, Target, resolve
from noetl.session.errors import UsageError
from tests.e2e.processes import Workspace
from tests.e2e.test_remote import HELLO, serving

TOKEN = "noetl_0123456789abcdef_not-a-secret-of-anyone"


class Home(Workspace):
    """A user with contexts of their own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        del self.environment["NOETL_DB"]
        self.config = folder / "config"
        self.environment |= {"XDG_CONFIG_HOME": str(self.config), "XDG_DATA_HOME": str(folder / "data")}

    @property
    def contexts(self) -> Path:
        return self.config / "noetl" / "contexts.json"

    def target(self, db: str | None = None, server: str | None = None, **environment: str) -> Target:
        return resolve(db, server, {**self.environment, **environment})


def test_contexts_are_set_listed_used_shown_and_forgotten(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert home.call("context", "set", "one", "http://127.0.0.1:1/").returncode == 0
    assert home.call("context", "set", "two", "https://two.example", "--token", "-", input=TOKEN).returncode == 0
    assert home.call("context", "use", "two").stdout == "commands go to https://two.example from now on\n"
    assert json.loads(home.call("context", "list", "--format", "json").stdout) == [
        {"name": "local", "url": None, "token": None, "current": False},
        {"name": "one", "url": "http://127.0.0.1:1", "token": None, "current": False},
        {"name": "two", "url": "https://two.example", "token": "stored", "current": True},
    ]
    for line in ("list", "show", "show two", "list --format json", "show two --format json"):
        done = home.call("context", *line.split())
        assert (done.returncode, TOKEN in done.stdout + done.stderr) == (0, False)
    assert home.target() == Server("https://two.example", Secret(TOKEN), "two")
    assert home.call("context", "rm", "two").stdout == "two: removed; commands go to the database file again\n"
    assert home.target() == DatabaseTarget()
    assert home.call("context", "rm", "two").returncode == 1
    assert TOKEN not in home.contexts.read_text()


def test_the_file_of_contexts_is_for_its_owner_alone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.call("context", "set", "one", "https://one.example", "--token", "-", input=TOKEN)
    assert home.contexts.stat().st_mode & 0o777 == 0o600
    home.contexts.chmod(0o644)
    done = home.call("context", "use", "one")
    assert (done.returncode, "chmod 600" in done.stderr, TOKEN in done.stderr) == (2, True, False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["local", "http://h"], "is the database"),
        (["Two words", "http://h"], "cannot be the name"),
        (["one", "host:80"], "write it as https://host:port"),
        (["one", "http://user:pass@h"], "no user and no password"),
        (["one", "http://h", "--token", "abc"], "other users can see a command line"),
        (["one", "http://h", "--token", "-", "--token-file", "x"], "exclude each other"),
        (["one", "http://h", "--token-file", "nowhere"], "cannot be read"),
        (["one", "http://h", "--token", "-"], "a token is one word"),
    ],
)
def test_what_can_be_no_context_is_refused_with_words(tmp_path: Path, arguments: list[str], words: str) -> None:
    home = Home(tmp_path)
    done = home.call("context", "set", *arguments, input="two words\n")
    assert (done.returncode in (1, 2), words in done.stderr) == (True, True)
    assert not home.contexts.exists()


def test_a_token_that_others_could_read_on_the_way_is_warned_of(tmp_path: Path) -> None:
    home = Home(tmp_path)
    done = home.call("context", "set", "one", "http://one.example", "--token", "-", input=TOKEN)
    assert (done.returncode, "use https" in done.stderr) == (0, True)
    done = home.call("context", "set", "two", "http://127.0.0.1:80", "--token", "-", input=TOKEN)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_line_beats_the_environment_and_that_the_context(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.call("context", "set", "kept", "http://kept.example")
    home.call("context", "use", "kept")
    variables = {"NOETL_SERVER": "http://variable.example", "NOETL_DB": "some.db"}
    assert home.target(None, "http://given.example", **variables) == Server(
        "http://given.example", None, option="http://given.example"
    )
    kept = Server("http://kept.example", None, "kept")
    assert home.target(None, "kept", **variables) == kept._replace(option="kept")
    assert home.target(**variables) == Server("http://variable.example", None)
    assert home.target(NOETL_DB="some.db") == DatabaseTarget()
    assert home.target() == kept
    assert home.target("some.db", **variables) == DatabaseTarget("some.db")
    assert home.target(None, "local", **variables) == DatabaseTarget()
    assert home.target(NOETL_SERVER="local") == DatabaseTarget()
    assert home.target(NOETL_SERVER="kept") == kept
    with pytest.raises(UsageError, match="exclude each other"):
        resolve("some.db", "kept")
    with pytest.raises(UsageError, match="known contexts: local, kept"):
        home.target(NOETL_SERVER="another")


def test_the_token_of_the_environment_goes_to_no_other_server_than_that_of_the_environment(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    mine, other = "http://mine.example", "http://other.example"
    variables = {"NOETL_SERVER": mine, "NOETL_TOKEN": TOKEN}
    assert home.target(**variables) == Server(mine, Secret(TOKEN))
    assert home.target(None, f"{mine}/", **variables) == Server(mine, Secret(TOKEN), option=f"{mine}/")
    assert home.target(None, other, **variables) == Server(other, None, option=other)
    assert home.target(None, other, NOETL_TOKEN=TOKEN) == Server(other, Secret(TOKEN), option=other)


def test_commands_in_hints_carry_the_server_that_the_command_line_names() -> None:
    assert Server("http://up.example", None, "up", "up").hint == " --server up"
    assert Server("http://up.example", None, option="http://[::1]:8080").hint == " --server 'http://[::1]:8080'"
    assert Server("http://up.example", None, "up").hint == ""


def test_a_current_context_that_is_not_there_is_told_and_no_file_is_used_in_its_place(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.call("context", "set", "one", "http://one.example")
    text = home.contexts.read_text()
    home.contexts.write_text(text.replace('"current": "local"', '"current": "gone"'))
    with pytest.raises(UsageError, match='no context "gone"'):
        home.target()
    for broken in ("{", "[]", '{"current": 1, "contexts": {}}', '{"current": "a", "contexts": {"a": {}}}'):
        home.contexts.write_text(broken)
        with pytest.raises(UsageError, match="not a file of contexts"):
            home.target()


def test_a_server_that_asks_for_tokens_is_reached_by_a_context_that_has_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    db = str(tmp_path / "noetl.db")
    with serving(tmp_path, "--auth", "--port", "0") as (_, url):
        made = home.call("token", "create", "boss", "--scope", "admin", "--db", db, "--format", "json")
        token = json.loads(made.stdout)["token"]
        refused = home.call("list", "--server", url)
        assert (refused.returncode, "NOETL_TOKEN" in refused.stderr) == (1, True)
        home.environment |= {"NOETL_SERVER": url, "NOETL_TOKEN": "what-is-none"}
        refused = home.call("list")
        assert (refused.returncode, "what-is-none" in refused.stderr) == (1, False)
        assert "this is not a NoETL token: a token begins with noetl_" in refused.stderr
        del home.environment["NOETL_SERVER"], home.environment["NOETL_TOKEN"]
        (tmp_path / "boss.token").write_text(token)
        home.call("context", "set", "here", url, "--token-file", tmp_path / "boss.token")
        home.call("context", "use", "here")
        assert home.call("run", home.write(HELLO)).returncode == 0
        low = json.loads(home.call("token", "create", "low", "--scope", "read", "--format", "json").stdout)
        home.environment["NOETL_TOKEN"] = low["token"]
        assert home.call("show", "last").returncode == 0
        refused = home.call("run", home.write(HELLO))
        assert (refused.returncode, low["token"] in refused.stderr) == (1, False)
        del home.environment["NOETL_TOKEN"]
        assert home.call("token", "revoke", low["id"]).returncode == 0
        names = [each["name"] for each in json.loads(home.call("token", "list", "--format", "json").stdout)]
        assert names == ["boss"]
        # The log records whose token it was.
        first = home.call("events", "last", "--format", "jsonl").stdout.splitlines()[0]
        assert json.loads(first)["data"]["by"] == "boss"
    assert token not in home.contexts.read_text()


def test_a_file_that_is_missing_costs_one_look(tmp_path: Path) -> None:
    assert resolve(environment={"XDG_CONFIG_HOME": os.fspath(tmp_path)}) == DatabaseTarget()
