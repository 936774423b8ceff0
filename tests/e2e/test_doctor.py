"""`noetl doctor`: what is wrong is found and said with its cure, what is right is left alone, nothing is shown."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw
import pytest

from noetl.adapters.postgres.database import open_postgres
from noetl.adapters.postgres.schema import VERSION as POSTGRES_VERSION
from noetl.adapters.postgres.secrets import PostgresTokens
from noetl.adapters.sqlite.schema import VERSION
from noetl.clock import SystemClock
from noetl.runtime.doctor import Diagnosis, DoctorOptions, check_pool_keys, check_stored_secrets, run_checks
from noetl.runtime.doctor.nats import JetStreamStore, check_store
from noetl.runtime.doctor.postgres import check_durability, check_schema, check_version
from noetl.runtime.doctor.server import pools_of
from noetl.runtime.doctor.sqlite import check_file_system
from noetl.runtime.embedded import open_local_store
from tests import services
from tests.e2e.processes import NOETL
from tests.playbooks import HEAD, kinds
from tests.ports import free_port
from tests.services_objects import nats_server
from tests.unit.cli.executed import mixed_file

KEY = "A" * 43 + "="  # 32 bytes


def grades(found: list[Diagnosis]) -> dict[str, str]:
    return {each.check: each.grade for each in found}


def looked_at(asked: DoctorOptions) -> dict[str, Diagnosis]:
    return {each.check: each for each in asyncio.run(run_checks(asked))}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "noetl.db"
    open_local_store(path).close()
    return path


def call(*arguments: str | Path, environment: Mapping[str, str]) -> tuple[int, str]:
    check_store = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
    done = subprocess.run(
        [NOETL, "doctor", *arguments], capture_output=True, text=True, check=False, timeout=60,
        env={**check_store, "TERM": "dumb", **environment},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


# The command


def test_a_set_up_without_fault_is_all_well(file: Path, tmp_path: Path) -> None:
    code, said = call("--db", file, environment={"XDG_CONFIG_HOME": str(tmp_path)})
    assert (code, said.splitlines()[-1]) == (0, "11 checks passed")


def test_a_warning_counts_only_when_that_is_asked_for(file: Path, tmp_path: Path) -> None:
    file.chmod(0o644)
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "NOETL_DB": str(file)}
    code, said = call(environment=environment)
    assert (code, said.splitlines()[-1]) == (0, "11 checks: 0 errors, 1 warning")
    assert f"→chmod600{file}*" in "".join(said.split())  # long words go over several lines
    assert call("--strict", environment=environment)[0] == 1


def test_json_is_one_document_and_holds_no_secret(tmp_path: Path) -> None:
    environment = {
        "XDG_CONFIG_HOME": str(tmp_path),
        "NOETL_DB": "postgresql://ann:hush-hush@127.0.0.1:1/noetl",
        "NOETL_NATS": "nats://ann:hush-hush@127.0.0.1:1",
        "NOETL_KEY": "hush-hush",
        "NOETL_LINK_KEY": "hush-hush",
        "NOETL_SERVER": "http://127.0.0.1:1",
        "NOETL_TOKEN": "noetl_1_hush-hush",
    }
    code, said = call("--format", "json", environment=environment)
    document: dict[str, Any] = json.loads(said)
    assert code == 1
    assert document["ok"] is False
    wrong = sorted(each["check"] for each in document["findings"] if each["grade"] == "error")
    assert wrong == ["key", "link-key", "nats-reachable", "postgres-reachable", "server-reachable"]
    assert "hush" not in said


# The file


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "noetl.db"
    path.write_text("dear diary, " * 1_000)
    found = looked_at(DoctorOptions(file=path))
    assert found["sqlite-opens"].grade == "error"
    assert "is not a database" in found["sqlite-opens"].words


def test_a_file_of_something_else_and_one_of_a_newer_noetl_are_told(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    connection = apsw.Connection(str(other))
    connection.execute("CREATE TABLE songs (name)")
    connection.close()
    assert "another program" in looked_at(DoctorOptions(file=other))["sqlite-schema"].words
    connection = apsw.Connection(str(file))
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    found = looked_at(DoctorOptions(file=file))["sqlite-schema"]
    assert (found.grade, "newer NoETL" in found.words) == ("error", True)


def test_a_file_that_someone_keeps_locked_is_told(file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = looked_at(DoctorOptions(file=file))["sqlite-lock"]
    finally:
        connection.close()
    assert (found.grade, found.cure) == ("error", f"find the process: lsof {file}")
    assert looked_at(DoctorOptions(file=file))["sqlite-lock"].grade == "ok"


def test_a_damaged_file_is_told(file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("INSERT INTO log VALUES ('a', 1, 1, 1, hex(zeroblob(40000)))")
    connection.pragma("wal_checkpoint(truncate)")
    connection.close()
    with open(file, "r+b") as stream:
        stream.seek(8192)
        stream.write(b"\xff" * (file.stat().st_size - 8192))
    found = looked_at(DoctorOptions(file=file))
    assert "error" in (found["sqlite-whole"].grade if "sqlite-whole" in found else found["sqlite-opens"].grade)


def test_a_file_of_keys_that_others_may_read_is_told_with_its_cure(file: Path) -> None:
    keys = file.with_name("noetl.db.key")
    keys.write_text(f"{KEY}\n")
    keys.chmod(0o640)
    found = looked_at(DoctorOptions(file=file, environment={}))["key-file"]
    assert (found.grade, found.cure) == ("error", f"chmod 600 {keys}")


def test_secrets_that_no_key_here_opens_are_counted() -> None:
    assert check_stored_secrets({"a": 2, "b": 1}, {"a"}).words == "1 of 3 stored secrets need a key that is missing"
    assert check_stored_secrets({"a": 2}, {"a"}).grade == check_stored_secrets({}, set()).grade == "ok"


def test_what_nobody_runs_is_counted_in_a_sentence(tmp_path: Path) -> None:
    found = looked_at(DoctorOptions(file=Path(mixed_file(tmp_path))))["sqlite-executions"]
    assert found.words == "1 of 1 open execution without a live owner; 0 running NoETL processes"


def test_a_file_that_is_not_there_yet_is_no_fault_and_is_not_made(tmp_path: Path) -> None:
    found = looked_at(DoctorOptions(file=tmp_path / "new" / "noetl.db"))
    assert found["sqlite-file"].grade == "ok"
    assert list(tmp_path.iterdir()) == []


def test_the_disk_of_this_machine_is_no_network_file_system(tmp_path: Path) -> None:
    assert check_file_system(tmp_path / "noetl.db") is None


# PostgreSQL


def test_postgres_is_looked_at_from_its_settings_to_who_owns_what() -> None:
    async def run() -> tuple[list[Diagnosis], list[Diagnosis]]:
        async with services.database() as name:
            url = services.postgres().dsn(name)
            empty = await run_checks(DoctorOptions(database=url, environment={"NOETL_KEY": KEY}))
            database = open_postgres(url, SystemClock())
            await PostgresTokens(database).list()  # makes the tables
            await database.close()
            return empty, await run_checks(DoctorOptions(database=url, environment={"NOETL_KEY": KEY}))

    empty, made = asyncio.run(run())
    assert (grades(empty)["postgres-version"], grades(empty)["postgres-schema"]) == ("ok", "info")
    found = grades(made)
    assert found["postgres-fsync"] == "error"  # that of tests has it off
    assert [check for check, grade in found.items() if grade == "warning"] == ["postgres-servers"]
    assert {found["postgres-schema"], found["postgres-clock"], found["postgres-executions"]} == {"ok"}


def test_settings_and_tables_that_do_not_fit_are_told() -> None:
    assert check_version({"server_version": "13.2", "server_version_num": "130002"}).grade == "error"
    assert check_durability({"fsync": "on", "full_page_writes": "off"}).grade == "error"
    grades_of = [check_schema(number).grade for number in (None, 0, 1, POSTGRES_VERSION, 99)]
    assert grades_of == ["error", "info", "info", "ok", "error"]  # older tables are upgraded when a server starts


# NATS


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[str]:
    with nats_server(tmp_path) as url:
        yield url


def test_nats_is_looked_at(nats: str) -> None:
    found = looked_at(DoctorOptions(nats=nats, environment={}, monitor=f"http://127.0.0.1:{free_port()}"))
    assert {check: each.grade for check, each in found.items() if check.startswith(("nats", "link"))} == {
        "link-key": "warning",
        "nats-version": "ok",
        "nats-payload": "info",  # 1 MB, as it comes
        "nats-jetstream": "ok",
        "nats-queue": "info",
        "nats-sync": "info",
    }


def test_what_nats_tells_of_its_store_is_judged() -> None:
    assert grades(check_store(JetStreamStore("/var/lib/nats/jetstream", synced=True))) == {
        "nats-sync": "ok",
        "nats-store": "ok",
    }
    doubtful = grades(check_store(JetStreamStore("/tmp/nats/jetstream", synced=False)))
    assert doubtful == {"nats-sync": "warning", "nats-store": "warning"}


def test_nats_that_is_not_there_is_told_without_the_password() -> None:
    found = looked_at(DoctorOptions(nats=f"nats://ann:hush@127.0.0.1:{free_port()}", environment={}))["nats-reachable"]
    assert found.grade == "error"
    assert "hush" not in found.words


# A server


def test_the_pools_that_a_playbook_names_are_those_of_its_steps_or_of_all() -> None:
    one = (
        HEAD
        + "workflow:\n- {step: start, spec: {pool: gpu}, tool: {kind: noop}, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: noop}}\n"
    )
    assert pools_of(one, kinds()) == {"gpu", "default"}
    assert pools_of("no: playbook", kinds()) <= {"default"}


def test_a_server_is_asked_for_itself_its_callers_and_its_workers(tmp_path: Path) -> None:
    check_store = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
    with subprocess.Popen(
        [NOETL, "server", "--db", tmp_path / "noetl.db", "--port", "0"],
        stderr=subprocess.PIPE, text=True, env=check_store,
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            said = next(line for line in process.stderr if "ready" in line)
            url = next(word for word in said.split() if word.startswith("http"))
            found = looked_at(DoctorOptions(server=url, environment={}))
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert {check: each.grade for check, each in found.items() if check.startswith("server")} == {
        "server-reachable": "ok",
        "server-ready": "ok",
        "server-token": "info",  # open, on this machine
        "server-workers": "ok",
    }


def test_the_keys_of_pools_are_checked_and_not_shown() -> None:
    key = "a" * 43 + "="
    for variables, level, words in (
        ({"NOETL_POOL_KEYS": f"default={key} gpu={key}"}, "ok", "default, gpu"),
        ({"NOETL_POOL_KEY": key}, "ok", "NOETL_POOL_KEY is set"),
        ({"NOETL_POOL_KEY": "hush-hush"}, "error", "32 bytes in base64"),
        ({"NOETL_POOL_KEYS": "default hush-hush"}, "error", "32 bytes in base64"),
    ):
        found = check_pool_keys(variables)
        assert (found.check, found.grade) == ("pool-keys", level)
        assert words in found.words
        assert "hush" not in f"{found}"
