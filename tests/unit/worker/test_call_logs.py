"""Lines that tasks print: split, masked and limited; a slow store delays no call and costs no memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from noetl.errors import Unavailable
from noetl.masking import Mask
from noetl.ports import PrintedLine
from noetl.testing import FakeClock
from noetl.worker.call_logs import FLUSH_S, LINE_BYTES_MAX, PENDING_BYTES_MAX, CallLog, LogWriter

SECRET = "correct-horse-battery"  # of the tests


class Sink:
    def __init__(self) -> None:
        self.lines: list[PrintedLine] = []
        self.writes: list[int] = []
        self.full = False
        self.down = False
        self.waits: asyncio.Event | None = None

    async def append(self, execution_id: str, lines: Sequence[PrintedLine]) -> bool:
        assert execution_id == "e"
        if self.waits is not None:
            await self.waits.wait()
        if self.down:
            raise Unavailable("the store is unreachable")
        self.writes.append(len(lines))
        if not self.full:
            self.lines += lines
        return not self.full

    @property
    def texts(self) -> list[str]:
        return [f"{line.call} {line.stream} | {line.text}" for line in self.lines]


class Printing:
    """A worker with one call that prints."""

    def __init__(self, sink: Sink, mask: Mask | None = None, call_bytes: int = 1 << 20) -> None:
        self.clock = FakeClock()
        self.writer = LogWriter(sink, self.clock, call_bytes)
        self._mask = mask
        self.log = self.open()

    def open(self, frame: str = "fetch#1[17]", call: int = 2) -> CallLog:
        return self.writer.open("e", frame, call, lambda: self._mask)

    def print(self, text: str | bytes, stream: Literal["out", "err"] = "out") -> None:
        self.log.write(stream, text if isinstance(text, bytes) else text.encode(), self.clock.now())

    async def flush(self) -> None:
        self.writer._tick()  # the timer of the event loop calls it
        await asyncio.gather(*(queue.task for queue in self.writer._queues.values() if queue.task))


def run(work: Callable[[Sink], Awaitable[None]]) -> None:
    async def main() -> None:
        sink = Sink()
        async with asyncio.timeout(60):
            await work(sink)

    asyncio.run(main())


def test_lines_of_both_streams_with_their_call() -> None:
    async def work(sink: Sink) -> None:
        printing = Printing(sink)
        printing.print("one\ntw")
        printing.print("careful\r\n", "err")
        printing.print("o\n\n\xff".encode("latin-1"))
        await printing.flush()
        assert sink.texts == [
            "fetch#1[17]/2 out | one", "fetch#1[17]/2 err | careful", "fetch#1[17]/2 out | two", "fetch#1[17]/2 out | ",
        ]  # fmt: skip
        assert {line.run for line in sink.lines} == {"fetch#1"}
        printing.log.close(printing.clock.now())
        await printing.writer.close()
        assert sink.texts[4:] == ["fetch#1[17]/2 out | \ufffd"]

    run(work)


def test_a_call_that_prints_nothing_writes_nothing() -> None:
    async def work(sink: Sink) -> None:
        printing = Printing(sink)
        printing.log.close(printing.clock.now())
        await printing.writer.close()
        assert sink.writes == []

    run(work)


def test_quick_calls_share_writes_and_a_single_one_is_stored_at_once() -> None:
    async def work(sink: Sink) -> None:
        printing = Printing(sink)
        for number in range(100):
            log = printing.open(f"each#1[{number}]", 1)
            log.write("out", b"x\n", printing.clock.now())
            log.close(printing.clock.now())
            await asyncio.sleep(0)  # noqa: TID251  # a turn of the loop, no time
        await printing.writer.close()
        assert sum(sink.writes) == 100
        assert sink.writes[0] == 1
        assert len(sink.writes) < 5

    run(work)


def test_secrets_are_masked_also_across_lines_and_writes() -> None:
    async def work(sink: Sink) -> None:
        import base64

        printing = Printing(sink, Mask([SECRET, "second secret value"]))
        printing.print(f"the key is {SECRET}!\n")
        encoded = base64.b64encode(SECRET.encode()).decode()
        printing.print(f"{encoded[:12]}\n{encoded[12:]}\nafter\n")
        await printing.flush()
        printing.print(f"{SECRET[:9]}")
        await printing.flush()
        printing.print(f"{SECRET[9:]} end\n")
        await printing.flush()
        text = "\n".join(sink.texts)
        assert SECRET not in text
        assert encoded[12:] not in text
        assert [line.text for line in sink.lines] == ["the key is ***!", "***", "", "after", "*** end"]

    run(work)


def test_a_call_keeps_its_first_bytes_and_says_where_it_was_cut() -> None:
    async def work(sink: Sink) -> None:
        printing = Printing(sink, call_bytes=10_000)
        for number in range(1_000):
            printing.print(f"{number:050}\n")
        assert printing.writer.waiting <= 11_000
        printing.log.close(printing.clock.now())
        await printing.writer.close()
        assert sink.lines[-1].stream == "note"
        assert sink.lines[-1].text == "the rest is left out: a call keeps 10,000 bytes of what it prints"
        numbers = [int(line.text) for line in sink.lines[:-1]]
        assert numbers == list(range(len(numbers)))
        assert 60 <= len(numbers) <= 66
        assert [line.stream for line in sink.lines].count("note") == 1

    run(work)


def test_a_long_line_is_divided() -> None:
    async def work(sink: Sink) -> None:
        printing = Printing(sink)
        printing.print(b"x" * (LINE_BYTES_MAX * 2 + 5))
        printing.log.close(printing.clock.now())
        await printing.writer.close()
        assert [len(line.text) for line in sink.lines] == [LINE_BYTES_MAX, LINE_BYTES_MAX, 5]

    run(work)


def test_while_the_store_is_away_lines_wait_within_a_limit_and_are_stored_later() -> None:
    async def work(sink: Sink) -> None:
        sink.down = True
        printing = Printing(sink, call_bytes=1 << 30)
        for _ in range(200):
            printing.print(b"x" * 65_535 + b"\n")
            await printing.flush()
        assert printing.writer.waiting <= PENDING_BYTES_MAX + 65_536
        sink.down = False
        await printing.flush()
        await printing.writer.close()
        assert printing.writer.waiting == 0
        assert any(line.stream == "note" and "left out" in line.text for line in sink.lines)
        assert sum(len(line.text) for line in sink.lines) > PENDING_BYTES_MAX // 2

    run(work)


def test_after_the_limit_of_an_execution_nothing_more_is_sent() -> None:
    async def work(sink: Sink) -> None:
        sink.full = True
        printing = Printing(sink)
        for _ in range(3):
            printing.print("x\n")
            await printing.flush()
            printing.clock.advance(FLUSH_S)
        assert sink.writes == [1]
        assert printing.writer.waiting == 0

    run(work)


def test_a_slow_store_does_not_delay_calls() -> None:
    async def work(sink: Sink) -> None:
        sink.waits = asyncio.Event()
        printing = Printing(sink)
        printing.print("one\n")
        printing.log.close(printing.clock.now())  # returns
        sink.waits.set()
        await printing.writer.close()
        assert len(sink.lines) == 1

    run(work)
