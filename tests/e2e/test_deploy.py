"""What deploy/ holds fits together: every command line is one that we take, and no service lacks what it needs."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from noetl.cli.app import app
from noetl.runtime.adapters import nats_configuration
from noetl.runtime.settings import variables
from tests.e2e.full_nats import full_nats, needs_busybox
from tests.e2e.processes import NOETL, PATIENCE_S, ROOT

DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.SafeLoader((DEPLOY / "compose.yaml").read_text()).get_single_data()
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"].startswith("noetl")]
VARIABLE = re.compile(r"\$\{(\w+)")


def parsed(arguments: list[str]) -> dict[str, Any]:
    """What the command line makes of them, without doing it. Raises when it does not know one."""
    group = typer.main.get_command(app)
    with group.make_context("noetl", list(arguments)) as context:
        assert isinstance(group, typer.core.TyperGroup)
        name, command, rest = group.resolve_command(context, list(arguments))
        assert command is not None
        return {"command": name, **command.make_context(name, rest, parent=context).params}


def test_there_are_two_servers_and_two_workers_on_postgres_and_nats() -> None:
    assert sorted(SERVICES) == ["nats", "postgres", "server-1", "server-2", "worker"]
    assert OURS == ["server-1", "server-2", "worker"]
    assert SERVICES["worker"]["deploy"] == {"replicas": 2}
    assert set(COMPOSE["volumes"]) == {"postgres", "nats"}


@pytest.mark.parametrize("name", OURS)
def test_every_command_of_ours_is_one_that_the_command_line_takes(name: str) -> None:
    given = parsed(SERVICES[name]["command"])
    if given["command"] == "server":
        assert (given["host"], given["port"]) == ("0.0.0.0", 8080)
    else:
        assert (given["command"], given["pool"], given["slots"]) == ("worker", "default", 16)


@pytest.mark.parametrize("name", OURS)
def test_every_variable_of_ours_is_one_that_noetl_reads(name: str) -> None:
    assert set(SERVICES[name]["environment"]) <= {variable.name for variable in variables().values()}


def test_a_worker_gets_neither_the_database_nor_the_keys_of_what_is_stored_and_of_servers() -> None:
    assert set(SERVICES["worker"]["environment"]) == {"NOETL_NATS", "NOETL_POOL_KEY"}
    assert "pool-default:" in SERVICES["worker"]["environment"]["NOETL_NATS"]


def test_the_users_of_nats_are_those_that_the_command_prints() -> None:
    assert (DEPLOY / "nats-users.conf").read_text() == nats_configuration(["default"])


def test_the_script_adds_the_keys_of_further_pools_and_changes_none(tmp_path: Path) -> None:
    script = tmp_path / "make-env"
    script.write_bytes((DEPLOY / "make-env").read_bytes())
    (tmp_path / ".env").write_text("NOETL_LINK_KEY=old\nNATS_PASSWORD=old\n")
    subprocess.run(["sh", script], check=True, capture_output=True)
    first = (tmp_path / ".env").read_text()
    assert first.startswith("NOETL_LINK_KEY=old\nNATS_PASSWORD=old\nPOSTGRES_PASSWORD=p")
    subprocess.run(["sh", script, "gpu-2"], check=True, capture_output=True)
    added = (tmp_path / ".env").read_text().removeprefix(first).splitlines()
    assert [line.partition("=")[0] for line in added] == ["NATS_PASSWORD_GPU_2", "POOL_KEY_GPU_2"]


def test_every_service_waits_for_what_it_needs_and_says_how_it_is() -> None:
    for name in OURS:
        waits = {each: how["condition"] for each, how in SERVICES[name]["depends_on"].items()}
        assert waits == {"postgres": "service_healthy", "nats": "service_healthy"}
    assert [name for name in ("postgres", "nats") if "test" not in SERVICES[name]["healthcheck"]] == []
    assert "HEALTHCHECK" in (DEPLOY / "Dockerfile").read_text()


def test_nothing_is_published_beyond_this_machine() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_the_networks_separate_the_database_the_queue_and_the_tools() -> None:
    networks = {name: set(service["networks"]) for name, service in SERVICES.items()}
    assert networks == {
        "postgres": {"database"},
        "nats": {"queue"},
        "server-1": {"api", "database", "queue"},
        "server-2": {"api", "database", "queue"},
        "worker": {"queue", "tools"},
    }
    internal = {name for name, network in COMPOSE["networks"].items() if network == {"internal": True}}
    assert (internal, set(COMPOSE["networks"]) - internal) == ({"database", "queue"}, {"api", "tools"})


def test_the_monitor_of_nats_listens_inside_its_container_only() -> None:
    assert re.findall(r"^https?(?:_port)?: *(\S+)", (DEPLOY / "nats.conf").read_text(), re.MULTILINE) == [
        '"127.0.0.1:8222"'
    ]
    assert "ports" not in SERVICES["nats"]
    assert SERVICES["nats"]["healthcheck"]["test"][-1] == "http://127.0.0.1:8222/healthz"


def test_images_of_others_have_exact_versions() -> None:
    images = [service["image"] for name, service in SERVICES.items() if name not in OURS]
    images += re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert len(images) == 4
    exact = re.compile(r"(postgres:\d+\.\d+|(nats|python):\d+\.\d+\.\d+)(-\w+)?(@sha256:[0-9a-f]{64})?")
    assert [image for image in images if not exact.fullmatch(image)] == []


def test_the_script_makes_every_variable_that_compose_wants_once_and_for_its_owner_alone(
    tmp_path: Path,
) -> None:
    script = tmp_path / "make-env"
    script.write_bytes((DEPLOY / "make-env").read_bytes())
    made = [subprocess.run(["sh", script], capture_output=True, text=True, check=False) for _ in range(2)]
    assert [done.returncode for done in made] == [0, 1]
    file = tmp_path / ".env"
    values = dict(line.split("=", 1) for line in file.read_text().splitlines())
    assert set(values) == set(VARIABLE.findall((DEPLOY / "compose.yaml").read_text()))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    keys = {name: values[name] for name in ("NOETL_KEY", "NOETL_LINK_KEY")}
    asked = subprocess.run(
        [NOETL, "doctor", "--db", tmp_path / "none.db", "--format", "plain"], capture_output=True, text=True,
        check=False, env={**os.environ, **keys}, timeout=60,
    )  # fmt: skip
    assert asked.returncode == 0, asked.stdout
    assert "NOETL_KEY holds 1 key" in asked.stdout
    assert "NOETL_LINK_KEY is set" in asked.stdout


def test_nats_takes_its_settings_which_keep_what_is_acknowledged() -> None:
    server = Path(sys.executable).with_name("nats-server")
    done = subprocess.run(
        [server, "-t", "-c", DEPLOY / "nats.conf"], capture_output=True, text=True, check=False,
        env={"NATS_PASSWORD": "n1234567890", "NATS_PASSWORD_DEFAULT": "n0987654321"}, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    settings = (DEPLOY / "nats.conf").read_text()
    assert "sync_interval: always" in settings
    assert 'store_dir: "/var/lib/nats"' in settings
    assert [each for each in SERVICES["nats"]["volumes"] if each.endswith(":/var/lib/nats")] == ["nats:/var/lib/nats"]


@needs_busybox
def test_nats_ends_after_a_full_disk_when_there_is_space_and_is_restarted(tmp_path: Path) -> None:
    service = SERVICES["nats"]
    shell, script = service["entrypoint"]
    assert (shell, script, service["restart"]) == ("sh", "/etc/nats/nats-run", "unless-stopped")
    text = (DEPLOY / Path(script).name).read_text()

    with full_nats(tmp_path, lambda here: ["busybox", shell, "-c", here(text)], "/var/lib/nats") as found:
        assert found.process.poll() is None
        found.disk.make_space()
        assert found.process.stderr is not None
        assert any("NATS is restarted" in line for line in found.process.stderr)
        found.process.wait(PATIENCE_S)


def test_the_image_has_extras_that_exist_the_uv_of_the_project_and_a_user_of_its_own() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    text = (DEPLOY / "Dockerfile").read_text()
    extras = re.findall(r"--extra (\w+)", text)
    assert {"postgres", "nats"} <= set(extras) <= set(project["project"]["optional-dependencies"])
    uv = re.search(r"uv==[\d.]+", text)
    assert uv is not None
    assert uv[0] in project["dependency-groups"]["dev"]
    last = text[text.rindex("FROM ") :]
    assert "USER 10001" in last
    assert not re.search(r"pip install|apt-get|uv ", last)


def test_the_commands_of_the_guides_are_ones_that_the_command_line_takes() -> None:
    pages = [DEPLOY / "README.md", ROOT / "docs" / "guides" / "distributed.md"]
    lines = [line for page in pages for line in re.findall(r"^\$ (.+)$", page.read_text(), re.MULTILINE)]
    ours = [line.split("#")[0].split() for line in lines if line.startswith("noetl ")]
    assert len(ours) > 5
    for words in ours:
        parsed([word.strip("'\"") for word in words[1:]])
