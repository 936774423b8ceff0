"""Stored secrets: encrypted, bound to their names, under keys that can be changed at any time."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest

from noetl.adapters.secrets.stored import KeyFile, StoredSecrets, key_of
from noetl.adapters.sqlite.database import open_sqlite
from noetl.adapters.sqlite.secrets import SqliteSecretRows, stored_secrets
from noetl.clock import SystemClock
from noetl.errors import NoetlError, NotFound, Rejected, Unavailable
from noetl.failpoints import VARIABLE

Use = Callable[[StoredSecrets], Awaitable[None]]


def on_file(path: Path, use: Use, environment: dict[str, str] | None = None) -> None:
    async def go() -> None:
        database = open_sqlite(path, SystemClock())
        try:
            await use(stored_secrets(database, environment or {}))
        finally:
            database.close()

    asyncio.run(go())


def new_key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


async def told(work: Awaitable[object]) -> str:
    try:
        await work
    except NoetlError as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def test_what_is_set_comes_back_and_stands_nowhere_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"

    async def use(secrets: StoredSecrets) -> None:
        assert await secrets.set("pg", "hunter22 ü") == 1
        assert await secrets.set("pg", "another one") == 2
        value, version = await secrets.get("pg")
        assert (value.reveal(), version) == ("another one", 2)
        assert [each[:2] for each in await secrets.list()] == [("pg", 2)]

    on_file(path, use)
    held = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"hunter22" not in held
    assert b"another one" not in held
    key = path.with_name("noetl.db.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(base64.b64decode(key.read_text())) == 32


def test_a_removed_secret_is_gone_and_its_version_is_never_given_again(tmp_path: Path) -> None:
    async def use(secrets: StoredSecrets) -> None:
        await secrets.set("pg", "hunter22")
        await secrets.remove("pg")
        assert await secrets.list() == []
        with pytest.raises(NotFound, match="noetl secrets set pg"):
            await secrets.get("pg")
        assert await told(secrets.remove("pg")) == 'NotFound: no secret "pg" is stored'
        assert await told(secrets.remove("half \ud800")) != "done"
        assert await secrets.set("pg", "hunter23") == 2

    on_file(tmp_path / "noetl.db", use)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("pg", "abc", "too-short"),
        ("pg", "x" * 65_537, "too-long"),
        ("pg", "half \ud800", "not-text"),
        ("", "hunter22", "bad-name"),
        ("a\nb", "hunter22", "bad-name"),
        ("a" * 256, "hunter22", "bad-name"),
    ],
)
def test_what_can_be_no_secret_is_refused_without_repeating_it(
    name: str, value: str, code: str, tmp_path: Path
) -> None:
    async def use(secrets: StoredSecrets) -> None:
        with pytest.raises(Rejected) as caught:
            await secrets.set(name, value)
        assert caught.value.code == code
        assert value not in str(caught.value)
        assert await secrets.list() == []

    on_file(tmp_path / "noetl.db", use)


def test_a_row_under_another_name_does_not_open(tmp_path: Path) -> None:
    async def use(secrets: StoredSecrets) -> None:
        await secrets.set("high", "hunter22")
        await secrets.set("low", "public thing")
        with apsw.Connection(str(tmp_path / "noetl.db")) as stranger:
            moved = "(nonce, body) = (SELECT nonce, body FROM secrets WHERE name = 'high')"
            stranger.execute(f"UPDATE secrets SET {moved} WHERE name = 'low'")
        stranger.close()
        assert (await secrets.get("high"))[0].reveal() == "hunter22"
        with pytest.raises(NoetlError, match='the secret "low" is damaged'):
            await secrets.get("low")

    on_file(tmp_path / "noetl.db", use)


# Keys


def test_a_key_of_the_environment_makes_no_file_and_another_key_does_not_open(tmp_path: Path) -> None:
    path, first = tmp_path / "noetl.db", {"NOETL_KEY": new_key()}

    async def use(secrets: StoredSecrets) -> None:
        await secrets.set("pg", "hunter22")

    async def other(secrets: StoredSecrets) -> None:
        with pytest.raises(Unavailable, match="needs the key"):
            await secrets.get("pg")

    on_file(path, use, first)
    assert not path.with_name("noetl.db.key").exists()
    on_file(path, other, {"NOETL_KEY": new_key()})
    on_file(path, other)


@pytest.mark.parametrize("given", ["short", base64.b64encode(b"x" * 31).decode(), "?" * 44])
def test_what_is_no_key_is_told_and_not_repeated(given: str, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "k", {"NOETL_KEY": given})
    with pytest.raises(Unavailable, match="NOETL_KEY does not contain a key") as caught:
        keys.all()
    assert given not in str(caught.value)


def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "k", {})
    keys.write([key_of(b"x" * 32)])
    assert [key.body for key in keys.all()] == [b"x" * 32]
    (tmp_path / "k").chmod(0o640)
    with pytest.raises(Unavailable, match="chmod 600"):
        keys.all()
    assert "x" * 8 not in repr(key_of(b"x" * 32))


def test_the_half_written_key_of_one_who_died_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "k.new").write_bytes(b"half")
    keys = KeyFile(tmp_path / "k", {})
    keys.write([key_of(b"x" * 32)])
    assert [each.name for each in tmp_path.iterdir()] == ["k"]


def test_rotating_encrypts_all_under_a_new_key_and_forgets_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"

    async def use(secrets: StoredSecrets) -> None:
        for name in ("a", "b", "gone"):
            await secrets.set(name, f"value of {name}")
        await secrets.remove("gone")
        old = secrets.keys.all()
        assert await secrets.rotate() == 2
        assert {each.key_id for each in await secrets.list()} == {secrets.keys.all()[0].id}
        assert (len(secrets.keys.all()), old[0] in secrets.keys.all()) == (1, False)
        assert [((await secrets.get(name))[0].reveal(), (await secrets.get(name))[1]) for name in ("a", "b")] == [
            ("value of a", 1),
            ("value of b", 1),
        ]

    on_file(path, use)


def test_keys_of_the_environment_are_changed_by_putting_the_new_one_first(tmp_path: Path) -> None:
    path, old, new = tmp_path / "noetl.db", new_key(), new_key()

    async def use(secrets: StoredSecrets) -> None:
        await secrets.set("pg", "hunter22")
        assert "same-key" in await told(secrets.rotate())

    async def rotate(secrets: StoredSecrets) -> None:
        assert (await secrets.get("pg"))[0].reveal() == "hunter22"
        assert await secrets.rotate() == 1

    async def after(secrets: StoredSecrets) -> None:
        assert (await secrets.get("pg"))[0].reveal() == "hunter22"

    on_file(path, use, {"NOETL_KEY": old})
    on_file(path, rotate, {"NOETL_KEY": f"{new}, {old}"})
    on_file(path, after, {"NOETL_KEY": new})


def test_without_secrets_there_is_no_key_to_change(tmp_path: Path) -> None:
    async def use(secrets: StoredSecrets) -> None:
        assert "nothing-stored" in await told(secrets.rotate())

    on_file(tmp_path / "noetl.db", use)


def test_what_is_set_and_removed_while_the_key_is_changed_opens_afterwards(tmp_path: Path) -> None:
    async def use(secrets: StoredSecrets) -> None:
        for number in range(10):
            await secrets.set(f"n{number}", "the first value")
        work = [secrets.set(f"n{number}", f"value {number}") for number in range(5, 15)]
        await asyncio.gather(secrets.rotate(), secrets.remove("n0"), *work, secrets.rotate())
        assert len(secrets.keys.all()) == 1
        held = {each.name: (await secrets.get(each.name))[0].reveal() for each in await secrets.list()}
        assert held == {
            **{f"n{number}": "the first value" for number in range(1, 5)},
            **{f"n{number}": f"value {number}" for number in range(5, 15)},
        }

    on_file(tmp_path / "noetl.db", use)


def test_of_many_values_that_are_set_at_once_each_has_a_version(tmp_path: Path) -> None:
    async def use(secrets: StoredSecrets) -> None:
        versions = await asyncio.gather(*(secrets.set("pg", f"value {number}") for number in range(12)))
        assert sorted(versions) == list(range(1, 13))
        value, version = await secrets.get("pg")
        assert (value.reveal(), version) == (f"value {versions.index(12)}", 12)

    for name, environment in (("file", {}), ("given", {"NOETL_KEY": new_key()})):
        on_file(tmp_path / f"{name}.db", use, environment)


def test_rows_whose_key_is_lost_are_not_touched_by_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"

    async def use(secrets: StoredSecrets) -> None:
        await secrets.set("pg", "hunter22")

    async def without(secrets: StoredSecrets) -> None:
        assert "needs the key" in await told(secrets.rotate())
        assert secrets.keys.file_keys() == []

    on_file(path, use)
    kept = path.with_name("noetl.db.key").rename(tmp_path / "elsewhere")
    on_file(path, without)
    kept.rename(path.with_name("noetl.db.key"))

    async def again(secrets: StoredSecrets) -> None:
        assert (await secrets.get("pg"))[0].reveal() == "hunter22"

    on_file(path, again)


# Rows that lie elsewhere have no file beside them


def on_rows(path: Path, keys: KeyFile, use: Use) -> None:
    async def go() -> None:
        database = open_sqlite(path, SystemClock())
        try:
            await use(
                StoredSecrets(
                    SqliteSecretRows(database), SqliteSecretRows(database, "secret_inputs"), keys, SystemClock()
                )
            )
        finally:
            database.close()

    asyncio.run(go())


def test_without_a_file_the_key_must_come_from_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"

    async def use(secrets: StoredSecrets) -> None:
        assert "NOETL_KEY is not set" in await told(secrets.set("pg", "hunter22"))
        assert "nothing-stored" in await told(secrets.rotate())
        assert secrets.versions_key() is None

    async def given(secrets: StoredSecrets) -> None:
        assert await secrets.set("pg", "hunter22") == 1

    async def lost(secrets: StoredSecrets) -> None:
        for asked in (secrets.get("pg"), secrets.rotate()):
            assert "needs the key" in await told(asked)

    on_rows(path, KeyFile(None, {}), use)
    on_rows(path, KeyFile(None, {"NOETL_KEY": new_key()}), given)
    on_rows(path, KeyFile(None, {}), lost)


def test_a_key_file_may_lie_anywhere(tmp_path: Path) -> None:
    place = tmp_path / "keys" / "key"

    async def use(secrets: StoredSecrets) -> None:
        await secrets.set("pg", "hunter22")
        await secrets.rotate()
        assert (await secrets.get("pg"))[0].reveal() == "hunter22"

    on_rows(tmp_path / "noetl.db", KeyFile(place, {}), use)
    assert sorted(each.name for each in place.parent.iterdir()) == ["key", "key.lock"]
    assert not (tmp_path / "noetl.db.key").exists()


ROTATE = """
import asyncio, sys
from noetl.adapters.sqlite.database import open_sqlite
from noetl.adapters.sqlite.secrets import stored_secrets
from noetl.clock import SystemClock
asyncio.run(stored_secrets(open_sqlite(sys.argv[1], SystemClock()), {}).rotate())
"""


@pytest.mark.parametrize(("failpoint", "rewritten"), [("sqlite.before-commit", 0), ("sqlite.after-commit", 1)])
def test_a_rotation_that_is_killed_loses_nothing_and_can_be_done_again(
    failpoint: str, rewritten: int, tmp_path: Path
) -> None:
    path = tmp_path / "noetl.db"

    async def before(secrets: StoredSecrets) -> None:
        for name in "abc":
            await secrets.set(name, f"value of {name}")

    async def after(secrets: StoredSecrets) -> None:
        keys = secrets.keys.all()
        assert len(keys) == 2
        assert sum(each.key_id == keys[0].id for each in await secrets.list()) == rewritten
        assert [(await secrets.get(name))[0].reveal() for name in "abc"] == [f"value of {name}" for name in "abc"]
        await secrets.set("d", "value of d")
        assert await secrets.rotate() == 4
        assert len(secrets.keys.all()) == 1
        assert [(await secrets.get(name))[0].reveal() for name in "abcd"] == [f"value of {name}" for name in "abcd"]

    on_file(path, before)
    environment = {**os.environ, VARIABLE: failpoint}
    killed = subprocess.run([sys.executable, "-c", ROTATE, str(path)], env=environment, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    on_file(path, after)
