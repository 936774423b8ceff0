"""Restrictions that a process applies to itself before it executes a program of a playbook: Landlock and seccomp.

The guard process loads this file by its path, so it imports only the standard library. A restriction that the system
cannot apply raises RestrictionUnsupported: a program never runs without a restriction that its task asks for.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterable

LANDLOCK_ABI_MIN = 3  # since Linux 6.2; older ones do not restrict truncate()

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on all machines
_RULE_PATH_BENEATH = 1
_SCOPE_SIGNAL = 1 << 1  # signals to processes outside
_WRITE_FILE, _TRUNCATE, _IOCTL_DEV = 1 << 1, 1 << 14, 1 << 15
# Writing, removing, making any kind of entry, moving between folders, truncating. Reading and executing are not
# handled, so they stay permitted.
_WRITES = _WRITE_FILE | sum(1 << bit for bit in range(4, 14)) | _TRUNCATE
_FILE_WRITES = _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SECCOMP_MODE_FILTER = 22, 38, 2
# Architecture, socket, socketpair, io_uring_setup.
_MACHINES = {"x86_64": (0xC000003E, 41, 53, 425), "aarch64": (0xC00000B7, 198, 199, 425)}
_LOAD, _EQUALS, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06  # instructions of the filter
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EACCES
_CAPABILITIES = 0x20080522  # version 3
_DAC_OVERRIDE = 1 << 1


class RestrictionUnsupported(Exception):
    """This system cannot apply the restriction."""


def restrict(writable: Iterable[str], *, network: bool) -> None:
    """Restrict this process and all that it starts, without a way back. Raises RestrictionUnsupported and OSError."""
    if sys.platform != "linux":
        raise RestrictionUnsupported("spec.sandbox needs Linux")
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0:
        _drop_capabilities(libc)
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _restrict_files(libc, writable)
    if not network:
        _refuse_sockets(libc)


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise RestrictionUnsupported(
            f"spec.sandbox cannot be applied on this worker: {what}: {os.strerror(ctypes.get_errno())}"
        )
    return result


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Root keeps only the right to read files of others: Landlock does not restrict mode, owner, time and devices."""
    header = struct.pack("=Ii", _CAPABILITIES, 0)
    data = struct.pack("=6I", _DAC_OVERRIDE, _DAC_OVERRIDE, 0, 0, 0, 0)
    _checked(libc.capset(header, data), "capset")


def _restrict_files(libc: ctypes.CDLL, writable: Iterable[str]) -> None:
    abi = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if abi < LANDLOCK_ABI_MIN:
        found = "this kernel has none, or it is switched off" if abi < 0 else f"this kernel has version {abi}"
        raise RestrictionUnsupported(
            f"spec.sandbox needs Landlock version {LANDLOCK_ABI_MIN} (Linux 6.2 or newer) on the worker, and {found}"
        )
    handled = _WRITES | (_IOCTL_DEV if abi >= 5 else 0)
    attributes = struct.pack("=QQQ", handled, 0, _SCOPE_SIGNAL)[: 24 if abi >= 6 else 8]
    size = ctypes.c_size_t(len(attributes))
    ruleset = _checked(libc.syscall(_CREATE_RULESET, attributes, size, 0), "landlock_create_ruleset")
    for path in (*writable, *filter(os.path.exists, _DEVICES)):
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
        allowed = handled if os.path.isdir(path) else handled & _FILE_WRITES
        rule = struct.pack("=Qi", allowed, beneath)
        _checked(libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0), "landlock_add_rule")
        os.close(beneath)
    _checked(libc.syscall(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def _refuse_sockets(libc: ctypes.CDLL) -> None:
    """No new sockets, of any protocol. Pairs of connected sockets stay, because event loops need them.

    io_uring could make sockets without system calls, so it is refused, too.
    """
    machine = os.uname().machine
    if machine not in _MACHINES:
        raise RestrictionUnsupported(f"spec.sandbox with `network: false` does not support the machine {machine}")
    architecture, socket, socketpair, io_uring = _MACHINES[machine]
    install_filter(
        libc,
        (
            (_LOAD, 0, 0, 4),  # the architecture
            (_EQUALS, 1, 0, architecture),
            (_RETURN, 0, 0, _KILL),
            (_LOAD, 0, 0, 0),  # the number of the system call
            (_AT_LEAST, 7, 0, 1 << 30),  # x32, with other numbers
            (_EQUALS, 7, 0, socket),
            (_EQUALS, 6, 0, io_uring),
            (_EQUALS, 0, 3, socketpair),
            (_LOAD, 0, 0, 24),  # the type; a datagram socket of a pair could be connected to another address
            (_AND, 0, 0, 0xF),
            (_EQUALS, 0, 2, 1),  # SOCK_STREAM
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _KILL),
            (_RETURN, 0, 0, _REFUSE),
        ),
    )


def install_filter(libc: ctypes.CDLL, instructions: tuple[tuple[int, int, int, int], ...]) -> None:
    """A seccomp filter for this process. Raises RestrictionUnsupported."""
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in instructions))
    header = struct.pack("@HP", len(instructions), ctypes.addressof(program))
    _checked(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0), "seccomp")
