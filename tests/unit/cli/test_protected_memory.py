"""Processes of tasks cannot read the memory and the environment of the server or worker of the same user."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable

import pytest

from noetl.cli.process import protect_memory

NOBODY = 65_534
PR_SET_DUMPABLE = 4


def exit_code_of(work: Callable[[], int]) -> int:
    """The result of a function in a forked process."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work())
        except BaseException:  # noqa: BLE001  # the process ends here
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def read_parent() -> int:
    """0 if the environment of the parent can be read, 1 if not. Executing a program would have the same access."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    try:
        with open(f"/proc/{os.getppid()}/environ", "rb") as file:
            file.read(1)
    except PermissionError:
        return 1
    return 0


def read_before_and_after() -> int:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as after a login
    before = exit_code_of(read_parent)
    protect_memory()
    after = exit_code_of(read_parent)
    return before * 2 + after


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc/PID/environ")
def test_another_process_of_the_user_cannot_read_the_environment() -> None:
    assert exit_code_of(read_before_and_after) == 1, "readable before, and not after"
