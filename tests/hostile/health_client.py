"""A process that requests the health of a server repeatedly and measures the times without the work of the attackers.

Each request uses a new connection, as a load balancer does. The process ends when its standard input closes.
"""

from __future__ import annotations

import json
import socket
import sys
from threading import Event, Thread

from noetl.clock import SystemClock

EVERY_S = 0.02
PATIENCE_S = 60
QUESTION = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def health(port: int) -> bytes:
    """The answer to one health request."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as line:
        line.sendall(QUESTION)
        answer = b""
        while more := line.recv(65_536):
            answer += more
    return answer


def main(port: int) -> None:
    clock, over, waits = SystemClock(), Event(), list[float]()

    def listen() -> None:
        sys.stdin.read()
        over.set()

    Thread(target=listen, daemon=True).start()
    while not over.wait(EVERY_S):
        asked_at = clock.monotonic()
        answer = health(port)
        waits.append((clock.monotonic() - asked_at) * 1_000)
        assert answer.startswith(b"HTTP/1.1 200 "), answer
    print(json.dumps(waits))


if __name__ == "__main__":
    main(int(sys.argv[1]))
