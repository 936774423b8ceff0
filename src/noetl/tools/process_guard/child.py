"""The guard process: it runs between the worker and a program, and ends all processes of the program.

On Linux it adopts orphaned processes (as a subreaper), so that neither daemons nor new sessions escape it. It
is started as a script and imports only the standard library. When the worker dies, it ends the program. It
counts the processes below it itself, because a fork bomb leaves the worker no CPU time to do so.
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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, NoReturn

PROCESSES_MAX = 256  # of a program and everything that it has started, at the same time
COUNT_S = 0.025  # between two counts of the processes
COUNT_SHARE = 40  # also at least this multiple of the time that a count takes, so that it stays cheap
WATCH_S = 0.25  # counting continues this long after a WATCH message, and while there is more than one process
SWEEP_S = 4.0  # processes that may not be killed are left alone after this time
USER_MORE_MAX = 384  # processes and threads that the user may have in addition to those at the start
SPAWN_TRIES, SPAWN_RETRY_S = 60, 0.05
SWEEP_MAX = 4_096  # processes that one pass of the sweep looks for
SWEEP_MS = 5  # between two passes
RUN, WATCH, END = b"+", b"w", b"."  # messages of the worker: run a program; count processes; end it
CHANNEL = 3  # file descriptor of an extra socket for the program
REPORT = 64  # file descriptor on which a new process reports why it cannot execute its program
DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD)

_LENGTH = struct.Struct(">I")
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38


class WorkerGone(Exception):
    """The worker has closed the socket."""


class RestrictionFailed(Exception):
    """The restrictions of a program cannot be applied, so it was not started."""


def children_of(pid: int) -> list[int]:
    """Child processes, of all threads; none if the system does not report them. Must be fast."""
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


def descendants_of(pid: int, most: int, *, stop: bool = False) -> list[int]:
    """All processes below this one, parents first. The search ends when there are more than `most`.

    `stop`: each process is stopped before its children are listed, so that it cannot start more of them.
    """
    found = children_of(pid)
    for each in found:  # the list grows during the iteration
        if stop:
            _kill(each, signal.SIGSTOP)
        if len(found) > most:
            break
        found += children_of(each)
    return found


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # drops one that came while it was blocked
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    nice = int(sys.argv[2])
    os.nice(nice)  # programs inherit it
    _become_subreaper()
    _raise_priority()
    _limit_processes()
    woken, wakes = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    try:
        while True:
            _serve(control, woken, poll, nice)
    except (WorkerGone, OSError):
        os._exit(0)


def _become_subreaper() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _serve(control: socket.socket, woken: int, poll: select.poll, nice: int) -> None:
    """Run one program, until it and all processes that it has started have ended."""
    message, fds, _, _ = socket.recv_fds(control, 1, 4)
    for each in fds:
        os.set_inheritable(each, False)  # Python 3.11 ignores the flag MSG_CMSG_CLOEXEC here
    if not message:
        raise WorkerGone
    if message != RUN:
        return  # a message for a program that had already ended
    (length,) = _LENGTH.unpack(_read(control, _LENGTH.size))
    request = json.loads(_read(control, length))
    try:
        program = _spawn_with_retry(request, fds)
    except OSError as error:
        control.sendall(b"refused %d\n" % (error.errno or 0))
        return
    except RestrictionFailed as error:
        control.sendall(b"denied %s\n" % " ".join(str(error).split()).encode())
        return
    finally:
        for each in fds:
            os.close(each)
    over_limit = False
    try:
        control.sendall(b"started %d\n" % program)
        over_limit = _wait(control, program, woken, poll, nice)
    finally:
        status = _sweep(program, woken, poll)  # also if the worker has died
    control.sendall(b"ended " + (b"crowded" if over_limit else status) + b"\n")


def _read(control: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = control.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise WorkerGone
        parts += part
    return bytes(parts)


def _spawn_with_retry(request: dict[str, Any], fds: list[int]) -> int:
    """At the limit of processes a retry can succeed, once another guard has ended a fork bomb."""
    spawn = _spawn if request["restrictions"] is None and request["user"] is None else _spawn_restricted
    for _ in range(SPAWN_TRIES - 1):
        try:
            return spawn(request, fds)
        except BlockingIOError:
            time.sleep(SPAWN_RETRY_S)
    return spawn(request, fds)


def _spawn(request: dict[str, Any], fds: list[int]) -> int:
    argv: list[str] = request["argv"]
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(request["cwd"])
        return os.posix_spawn(
            argv[0],
            argv,
            request["env"],
            file_actions=[(os.POSIX_SPAWN_DUP2, each, number) for number, each in enumerate(fds)],
            setsid=True,
            scheduler=(os.SCHED_OTHER, os.sched_param(0)),  # the program does not inherit the raised priority
            setsigmask=(),
            setsigdef=DEFAULT_SIGNALS,
        )
    finally:
        os.fchdir(here)
        os.close(here)


def _spawn_restricted(request: dict[str, Any], fds: list[int]) -> int:
    """Fork, restrict the new process, and execute the program in it. Raises OSError and RestrictionFailed."""
    import runpy

    apply: dict[str, Any] = {}
    if request["restrictions"] is not None:
        apply = runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "restrict.py"))
    if request["user"] is not None:
        request["user"]["processes"] = _user_threads(request["user"]["uid"]) + USER_MORE_MAX
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _execute(request, fds, apply, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as report:
        message = report.read().decode(errors="replace")  # empty: the program was executed, which closed the pipe
    if not message:
        return pid
    os.waitpid(pid, 0)
    what, _, rest = message.partition(" ")
    if what == "errno":
        raise OSError(int(rest), os.strerror(int(rest)))
    raise RestrictionFailed(rest)


def _execute(request: dict[str, Any], fds: list[int], apply: dict[str, Any], report: int) -> NoReturn:
    """In the new process: as posix_spawn in `_spawn`, as another user, and with restrictions."""
    try:
        os.dup2(report, REPORT, inheritable=False)
        os.setsid()
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        signal.set_wakeup_fd(-1)
        for default in DEFAULT_SIGNALS:
            signal.signal(default, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number, each in enumerate(fds):
            os.dup2(each, number)
        if request["user"] is not None:
            _become(request["user"], request["cwd"])
        os.chdir(request["cwd"])
        if request["restrictions"] is not None:
            try:
                apply["restrict"](request["restrictions"]["writable"], network=request["restrictions"]["network"])
            except (OSError, apply["RestrictionUnsupported"]) as error:
                os.write(REPORT, f"denied {error}".encode(errors="replace"))
                os._exit(1)
        os.execve(request["argv"][0], request["argv"], request["env"])
    except OSError as error:
        os.write(REPORT, b"errno %d" % (error.errno or 0))
    finally:
        os._exit(1)


def _become(user: dict[str, Any], cwd: str) -> None:
    """Become another user for good: no program that it executes gets rights back."""
    import ctypes

    if hasattr(resource, "RLIMIT_NPROC"):
        resource.setrlimit(resource.RLIMIT_NPROC, (user["processes"], user["processes"]))
    os.setgroups(user["groups"])
    os.setresgid(user["gid"], user["gid"], user["gid"])
    os.setresuid(user["uid"], user["uid"], user["uid"])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if not os.access(cwd, os.X_OK):
        os.write(REPORT, f'denied the user "{user["name"]}" may not enter the folder "{cwd}"'.encode(errors="replace"))
        os._exit(1)


def _lower_session(program: int, nice: int) -> bool:
    """Lower the priority of the program's session; False: try again later.

    Where Linux groups processes by session ("autogroup"), the priority of a process counts in its session only.
    """
    if nice:
        try:
            file = os.open(f"/proc/{program}/autogroup", os.O_WRONLY)
            try:
                os.write(file, b"%d" % nice)
            finally:
                os.close(file)
        except BlockingIOError:
            return False  # a user may do it ten times a second
        except OSError:
            pass  # the system does not group them, or the program has ended
    return True


def _wait(control: socket.socket, program: int, woken: int, poll: select.poll, nice: int) -> bool:
    """Wait until the program has ended or must be ended. True: it has too many processes."""
    lowered = _lower_session(program, nice)
    poll.register(control, select.POLLIN)
    until = count_at = 0.0  # processes are counted until then; 0: they are not counted
    try:
        while not _has_ended(program):
            ready = {found for found, _ in poll.poll(_left_ms(count_at) if until else None)}
            if control.fileno() in ready:
                messages = control.recv(64)
                if not messages or END in messages:
                    return False
                until = time.monotonic() + WATCH_S
                lowered = lowered or _lower_session(program, nice)
            if woken in ready:
                _drain(woken)
                _reap_adopted(program)
            if until and time.monotonic() >= count_at:
                begun = time.process_time()  # CPU time, not elapsed time: a fork bomb delays this process
                size = len(descendants_of(os.getpid(), PROCESSES_MAX))
                if size > PROCESSES_MAX:
                    return True
                now = time.monotonic()
                count_at = now + max(COUNT_S, COUNT_SHARE * (time.process_time() - begun))
                until = until if size > 1 or now < until else 0.0
        return False
    finally:
        poll.unregister(control)


def _left_ms(until: float) -> float:
    return max(0.0, until - time.monotonic()) * 1000


def _reap_adopted(program: int) -> None:
    for each in children_of(os.getpid()):
        if each != program:
            with suppress(ChildProcessError):
                os.waitpid(each, os.WNOHANG)


def _has_ended(program: int) -> bool:
    """The program is not reaped here, so that its process id and group id are not reused."""
    return os.waitid(os.P_PID, program, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _drain(woken: int) -> None:
    with suppress(BlockingIOError):
        while os.read(woken, 4_096):
            pass


def _sweep(program: int, woken: int, poll: select.poll) -> bytes:
    """End the program and all other processes below this one. Returns its exit status.

    They are stopped first, repeatedly until no new process appears: a stopped process cannot fork, and it
    still counts towards the limit of processes. Then all are killed.
    """
    _kill(-program, signal.SIGSTOP)
    seen: set[int] = set()
    while not seen.issuperset(found := descendants_of(os.getpid(), SWEEP_MAX, stop=True)):
        seen.update(found)
    _kill(-program, signal.SIGKILL)
    until, status = time.monotonic() + SWEEP_S, b"unknown"
    while True:
        killed = [_kill(each, signal.SIGKILL) for each in descendants_of(os.getpid(), SWEEP_MAX)]
        try:
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                if reaped[0] == program:
                    status = _format_status(reaped[1])
        except ChildProcessError:
            return status  # no process is left
        if not any(killed) and time.monotonic() > until:
            return status  # the rest runs as another user, for example by sudo
        poll.poll(SWEEP_MS)
        _drain(woken)


def _format_status(status: int) -> bytes:
    code = os.waitstatus_to_exitcode(status)
    return b"exit %d" % code if code >= 0 else b"signal %d" % -code


def _kill(pid: int, number: signal.Signals) -> bool:
    """False: the process does not exist, or it belongs to another user."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _raise_priority() -> None:
    """Real-time priority, if it is permitted: a fork bomb leaves too little CPU time to end it otherwise."""
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def _limit_processes() -> None:
    """Limit the processes of the user, unless it is root: a fork bomb that cannot grow can be stopped."""
    if os.getuid() == 0 or not hasattr(resource, "RLIMIT_NPROC"):
        return
    most, hard = _user_threads(os.getuid()) + USER_MORE_MAX, resource.getrlimit(resource.RLIMIT_NPROC)[1]
    soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (soft, soft))


def _user_threads(own: int) -> int:
    """Threads of all processes of this user."""
    count = 0
    for each in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with suppress(OSError):
            if each.isdigit() and os.stat(f"/proc/{each}/task").st_uid == own:
                count += os.stat(f"/proc/{each}/task").st_nlink - 2
    return count


if __name__ == "__main__":
    main()
