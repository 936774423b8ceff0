"""The other side of a guard: a process between worker and program, which ends all that the program started.

On Linux it adopts what loses its parent, so that nothing leaves it: no daemon, no session of its own. It is
started by its path and knows the standard library only. When the worker is gone, so is the program. It counts
what runs below it: a crowd leaves a worker no time to do so.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress

PROCESSES_MAX = 256  # that a program and all that it starts may be at once
LOOK_S = 0.025  # between two looks at how many they are
LOOK_SHARE = 40  # and so many times what a look takes, so that looking costs little
WATCH_S = 0.25  # how long we look after a word to do so, and as long as there is more than the program
SWEEP_S = 4.0  # what lives on after so long, and is not ours to end, is left
USER_MORE_MAX = 384  # processes and threads that our user may have beyond those that it has when we start
SPAWN_TRIES, SPAWN_AGAIN_S = 60, 0.05
SWEPT_AT_ONCE = 4_096  # processes that are looked for in one go
TURN_MS = 5  # between two looks for what is left
RUN, WATCH, END = b"+", b"w", b"."  # what a worker says: a program follows; look at it; end it
CHANNEL = 3  # the descriptor of a program's own line, when it has one

_LENGTH = struct.Struct(">I")
_PR_SET_CHILD_SUBREAPER = 36


class Gone(Exception):
    """The worker has hung up."""


def children_of(pid: int) -> list[int]:
    """Of any of its threads; none where the system does not say. It is asked often, and in haste."""
    found: list[int] = []
    with suppress(OSError):
        alone = os.stat(f"/proc/{pid}/task").st_nlink == 3  # one thread
        for thread in (pid,) if alone else os.listdir(f"/proc/{pid}/task"):
            listing = os.open(f"/proc/{pid}/task/{thread}/children", os.O_RDONLY)
            try:
                found += map(int, b"".join(iter(lambda: os.read(listing, 1 << 16), b"")).split())  # noqa: B023
            finally:
                os.close(listing)
    return found


def family_of(pid: int, most: int, *, stop: bool = False) -> list[int]:
    """The processes below this one, parents first; a few more than `most` tell that there are more.

    `stop`: each is stopped before it is asked, so that its answer is its last.
    """
    found = children_of(pid)
    for each in found:  # it grows while we go through it
        if stop:
            _tell(each, signal.SIGSTOP)
        if len(found) > most:
            break
        found += children_of(each)
    return found


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    _adopt()
    _lift()
    _limit()
    woken, wakes = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    try:
        while True:
            _serve(control, woken, poll)
    except (Gone, OSError):
        os._exit(0)


def _adopt() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _serve(control: socket.socket, woken: int, poll: select.poll) -> None:
    """One program: from the request to its end, and to the end of all that it has started."""
    word, fds, _, _ = socket.recv_fds(control, 1, 4, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    if not word:
        raise Gone
    if word != RUN:
        return  # The program had ended by itself when we were told.
    (length,) = _LENGTH.unpack(_read(control, _LENGTH.size))
    request = json.loads(_read(control, length))
    try:
        program = _spawned_soon(request, fds)
    except OSError as error:
        control.sendall(b"refused %d\n" % (error.errno or 0))
        return
    finally:
        for each in fds:
            os.close(each)
    crowded = False
    try:
        control.sendall(b"started %d\n" % program)
        crowded = _wait(control, program, woken, poll)
    finally:
        how = _swept(program, woken, poll)  # whatever has become of the worker
    control.sendall(b"ended " + (b"crowded" if crowded else how) + b"\n")


def _read(control: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = control.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise Gone
        parts += part
    return bytes(parts)


def _spawned_soon(request: dict[str, list[str] | dict[str, str] | str], fds: list[int]) -> int:
    """Where there is no room for a process, there may be some when another guard has ended a crowd."""
    for _ in range(SPAWN_TRIES - 1):
        try:
            return _spawned(request, fds)
        except BlockingIOError:
            time.sleep(SPAWN_AGAIN_S)
    return _spawned(request, fds)


def _spawned(request: dict[str, list[str] | dict[str, str] | str], fds: list[int]) -> int:
    argv, env, cwd = request["argv"], request["env"], request["cwd"]
    assert isinstance(argv, list)
    assert isinstance(env, dict)
    assert isinstance(cwd, str)
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(cwd)
        return os.posix_spawn(
            argv[0],
            argv,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, each, place) for place, each in enumerate(fds)],
            setsid=True,
            scheduler=(os.SCHED_OTHER, os.sched_param(0)),  # our place before others is not the program's
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD),
        )
    finally:
        os.fchdir(here)
        os.close(here)


def _wait(control: socket.socket, program: int, woken: int, poll: select.poll) -> bool:
    """Until it has ended, or shall. True: because of all that runs below it."""
    poll.register(control, select.POLLIN)
    until = look_at = 0.0  # we watch until then; 0: not at all
    try:
        while not _has_ended(program):
            ready = {found for found, _ in poll.poll(_left_ms(look_at) if until else None)}
            if control.fileno() in ready:
                words = control.recv(64)
                if not words or END in words:
                    return False
                until = time.monotonic() + WATCH_S
            if woken in ready:
                _drain(woken)
                _bury_adopted(program)
            if until and time.monotonic() >= look_at:
                begun = time.process_time()  # Not what passes: where a crowd takes all the time, we look on.
                size = len(family_of(os.getpid(), PROCESSES_MAX))
                if size > PROCESSES_MAX:
                    return True
                now = time.monotonic()
                look_at = now + max(LOOK_S, LOOK_SHARE * (time.process_time() - begun))
                until = until if size > 1 or now < until else 0.0
        return False
    finally:
        poll.unregister(control)


def _left_ms(until: float) -> float:
    return max(0.0, until - time.monotonic()) * 1000


def _bury_adopted(program: int) -> None:
    for each in children_of(os.getpid()):
        if each != program:
            with suppress(ChildProcessError):
                os.waitpid(each, os.WNOHANG)


def _has_ended(program: int) -> bool:
    """It keeps its number, and its group the same one, until it is buried."""
    return os.waitid(os.P_PID, program, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _drain(woken: int) -> None:
    with suppress(BlockingIOError):
        while os.read(woken, 4_096):
            pass


def _swept(program: int, woken: int, poll: select.poll) -> bytes:
    """End the program and all below us.

    First they are stopped, again and again until nobody new is there: who is stopped makes no more of its
    kind, and makes no room for others to do so. Then they are ended.
    """
    _tell(-program, signal.SIGSTOP)
    met: set[int] = set()
    while not met.issuperset(family := family_of(os.getpid(), SWEPT_AT_ONCE, stop=True)):
        met.update(family)
    _tell(-program, signal.SIGKILL)
    until, how = time.monotonic() + SWEEP_S, b"unknown"
    while True:
        reached = [_tell(each, signal.SIGKILL) for each in family_of(os.getpid(), SWEPT_AT_ONCE)]
        try:
            while (buried := os.waitpid(-1, os.WNOHANG))[0]:
                if buried[0] == program:
                    how = _told(buried[1])
        except ChildProcessError:
            return how  # Nobody is left.
        if not any(reached) and time.monotonic() > until:
            return how  # They have become another user, as sudo does.
        poll.poll(TURN_MS)
        _drain(woken)


def _told(status: int) -> bytes:
    code = os.waitstatus_to_exitcode(status)
    return b"exit %d" % code if code >= 0 else b"signal %d" % -code


def _tell(pid: int, word: signal.Signals) -> bool:
    """False: it is nobody whom we may end."""
    try:
        os.kill(pid, word)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _lift() -> None:
    """Before all others, if we may: what a crowd leaves of the time is not enough to end it."""
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def _limit() -> None:
    """A crowd of any user but root has an end before we come: what can not grow can be stopped."""
    if os.getuid() == 0 or not hasattr(resource, "RLIMIT_NPROC"):
        return
    most, hard = _used() + USER_MORE_MAX, resource.getrlimit(resource.RLIMIT_NPROC)[1]
    soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (soft, soft))


def _used() -> int:
    """Threads of all processes of our user."""
    count, own = 0, os.getuid()
    for each in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with suppress(OSError):
            if each.isdigit() and os.stat(f"/proc/{each}/task").st_uid == own:
                count += os.stat(f"/proc/{each}/task").st_nlink - 2
    return count


if __name__ == "__main__":
    main()
