"""A thread with a short slice keeps its nice value, and what it starts has a slice of usual length."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from noetl.time_slice import ATTRIBUTES, SET_ATTRIBUTES, SLICE_NS, shorten_time_slice

NICE = 3


def nice_and_slice() -> tuple[int, int]:
    """Of the calling thread, as the kernel tells them."""
    buffer = ctypes.create_string_buffer(ATTRIBUTES.size)
    get_attributes = SET_ATTRIBUTES[platform.machine()] + 1
    if ctypes.CDLL(None, use_errno=True).syscall(get_attributes, 0, buffer, ATTRIBUTES.size, 0):
        raise OSError(ctypes.get_errno(), "sched_getattr")
    _, _, _, nice, _, slice_ns, _, _ = ATTRIBUTES.unpack(buffer.raw)
    return nice, slice_ns


def in_a_new_thread() -> tuple[int, int]:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(nice_and_slice).result()


def in_a_new_process() -> tuple[int, int]:
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(write, json.dumps(nice_and_slice()).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    nice, slice_ns = json.loads(os.read(read, 100))
    return nice, slice_ns


def takes_slices() -> bool:
    if sys.platform != "linux" or platform.machine() not in SET_ATTRIBUTES:
        return False
    major, minor, *_ = platform.release().split(".")
    return (int(major), int(minor)) >= (6, 12)


@pytest.mark.skipif(not takes_slices(), reason="needs Linux 6.12")
def test_only_the_calling_thread_has_a_short_slice_and_all_keep_the_nice_value() -> None:
    answer = subprocess.run([sys.executable, __file__], check=True, capture_output=True, text=True)
    before, after, thread, process = json.loads(answer.stdout)
    assert before[1] > SLICE_NS
    assert after == [NICE, SLICE_NS]
    assert thread == before
    assert process == before


def test_other_systems_ignore_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "unknown")
    shorten_time_slice()


if __name__ == "__main__":  # the process of the first test
    os.nice(NICE)
    first = nice_and_slice()
    shorten_time_slice()
    print(json.dumps([first, nice_and_slice(), in_a_new_thread(), in_a_new_process()]))
