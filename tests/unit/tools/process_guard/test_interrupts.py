"""Ctrl-C at the terminal of a worker never ends a guard, not even while the guard starts."""

from __future__ import annotations

import subprocess
import sys

STARTS = 40
# A process group of its own, so that only this script and the guards that it starts receive the signals.
SCRIPT = f"""
import os, signal, socket, threading
from noetl.tools.process_guard.guard import _start_process

os.setsid()
signal.signal(signal.SIGINT, lambda *_: None)
over = threading.Event()

def interrupt():
    while not over.is_set():
        os.killpg(0, signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
codes = set()
for _ in range({STARTS}):
    ours, theirs = socket.socketpair()
    process = _start_process(theirs.fileno())
    theirs.close()
    ours.close()  # a guard without its worker ends with 0
    codes.add(process.wait())
over.set()
print(sorted(codes))
"""


def test_ctrl_c_while_a_guard_starts_does_not_end_it() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.strip() == "[0]", done.stdout + done.stderr
