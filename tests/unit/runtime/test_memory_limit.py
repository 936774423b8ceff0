"""The memory that a process may use, as the files of Linux say it, and the default that follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.defaults import STATE_BYTES, STATE_MEMORY_SHARE
from noetl.errors import Rejected
from noetl.runtime.memory_limit import available_memory, default_state_bytes
from noetl.runtime.settings import Settings

GIB = 1 << 30
MACHINE = {"proc/meminfo": "MemTotal:       16777216 kB\nMemFree:         1000000 kB\n"}  # 16 GiB
NO_LIMIT_V1 = "9223372036854771712\n"


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "memory"),
    [
        pytest.param({}, 16 * GIB, id="no control groups"),
        pytest.param(
            {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{2 * GIB}\n"}, 2 * GIB, id="a container"
        ),
        pytest.param({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 16 * GIB, id="no limit"),
        pytest.param(
            {
                "proc/self/cgroup": "0::/system.slice/noetl-server.service\n",
                "sys/fs/cgroup/system.slice/memory.max": f"{3 * GIB}\n",
                "sys/fs/cgroup/system.slice/noetl-server.service/memory.max": f"{4 * GIB}\n",
            },
            3 * GIB,
            id="a unit in a slice with a lower limit",
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/../../pod/c\n", "sys/fs/cgroup/memory.max": f"{GIB}\n"},
            GIB,
            id="a group that the container cannot see",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "5:cpu,memory:/docker/c\n0::/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": NO_LIMIT_V1,
                "sys/fs/cgroup/memory/docker/c/memory.limit_in_bytes": f"{GIB}\n",
            },
            GIB,
            id="version 1",
        ),
        pytest.param(
            {"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": NO_LIMIT_V1},
            16 * GIB,
            id="version 1 without a limit",
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{64 * GIB}\n"},
            16 * GIB,
            id="a limit above the memory of the machine",
        ),
    ],
)
def test_the_lowest_limit_counts(files: dict[str, str], memory: int, tmp_path: Path) -> None:
    assert available_memory(written(tmp_path, MACHINE | files)) == memory


def test_a_system_without_these_files_has_an_unknown_amount_of_memory(tmp_path: Path) -> None:
    assert available_memory(tmp_path) is None
    assert default_state_bytes(tmp_path) == STATE_BYTES


def test_the_default_is_a_share_of_the_memory_and_has_a_maximum(tmp_path: Path) -> None:
    assert default_state_bytes(written(tmp_path, MACHINE)) == STATE_BYTES
    small = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{2 * GIB}\n"}
    assert default_state_bytes(written(tmp_path, small)) == 2 * GIB // STATE_MEMORY_SHARE


def test_a_given_value_replaces_the_default() -> None:
    assert Settings(state_bytes="5000").state_bytes_max == 5_000
    assert Settings(state_bytes="0").state_bytes_max == 0  # no limit
    assert 0 < Settings().state_bytes_max <= STATE_BYTES
    with pytest.raises(Rejected, match="NOETL_STATE_BYTES must be a number of bytes"):
        _ = Settings(state_bytes="much").state_bytes_max
