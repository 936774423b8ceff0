"""Short time slices for a thread, so that it runs soon after it wakes."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from typing import Final

SLICE_NS: Final = 100_000  # the shortest that Linux accepts
SET_ATTRIBUTES: Final = {"x86_64": 314, "aarch64": 274, "riscv64": 274}  # system calls: the C library has none
ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")  # size, policy, flags, nice, priority, slice, deadline, period
_RESET_ON_FORK: Final = 1


def shorten_time_slice() -> None:
    """For the calling thread, on Linux 6.12 and newer. Its nice value and its share of the processor stay the same.

    Beside programs that compute all the time, such as those of tasks, a thread that wakes waits until one of them has
    used its slice of a few milliseconds, although its own share is unused. A thread with a short slice goes first.
    Threads and processes that it starts do not inherit this.
    """
    call = SET_ATTRIBUTES.get(platform.machine())
    if sys.platform != "linux" or call is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return  # another policy was set by hand
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = ATTRIBUTES.pack(ATTRIBUTES.size, os.SCHED_OTHER, _RESET_ON_FORK, nice, 0, SLICE_NS, 0, 0)
    ctypes.CDLL(None).syscall(call, 0, attributes, 0)  # older kernels ignore the slice; a sandbox may refuse the call
