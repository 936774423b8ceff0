"""Reports of one turn of the event loop to the same owner are one message, and each has its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from noetl.adapters.memory import MemoryBus, MemoryTransport
from noetl.engine.commands import Report, Start
from noetl.engine.facts import TaskDone
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.ids import partition_of
from noetl.link.client import BATCH_MAX, LinkClient
from noetl.link.keys import LinkIdentity
from noetl.link.messages import PARTITIONS, ReportRequest, ReportsRequest, decode_request, encode_error
from noetl.link.server import REPORTS_MAX, _check_subject
from noetl.output import Output
from noetl.ports import Grant, Message, ReportAnswer
from noetl.slices import turn
from tests.contracts.link_servers import KEY, LinkedServer, Programs, served

ITEMS = 20
LOOP = f"""\
workflow:
- step: start
  loop: {{in: "{{{{ range({ITEMS}) }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: {ITEMS}}}}}
  tool: {{kind: http, url: "http://x"}}
"""


class Counted(MemoryTransport):
    """Counts the requests that it sends."""

    requests = 0

    async def request(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.requests += 1
        return await super().request(*args, **kwargs)


def with_loop(work: Callable[[LinkedServer[Counted], LinkClient, Counted, list[Grant]], Awaitable[None]]) -> None:
    """Runs the work with the grants of all iterations of a loop."""

    async def main() -> None:
        bus = MemoryBus()
        async with asyncio.timeout(60), served(lambda: Counted(bus), {"loop": LOOP}) as (server, transport, playbooks):
            link = LinkClient(transport, Programs(playbooks), owner_wait_s=0.0)
            await link.start("e", playbooks.digests["loop"], Start())
            grants = [await link.begin("e", f"start#1[{index}]", "w") for index in range(ITEMS)]
            transport.requests = 0
            await work(server, link, transport, [each for each in grants if each is not None])

    asyncio.run(main())


def report_of(grant: Grant) -> Report:
    frame = grant.work.frame.id
    done = TaskDone(
        frame=frame, call=1, task="http", directive="continue", next=-1, output=Output(status="ok", data=frame)
    )
    return Report(frame=frame, position=0, facts=(done,), epoch=grant.epoch)


def test_many_reports_are_two_messages() -> None:
    async def work(server: LinkedServer[Counted], link: LinkClient, transport: Counted, grants: list[Grant]) -> None:
        answers = await asyncio.gather(*(link.report("e", report_of(each)) for each in grants))
        assert answers == [ReportAnswer("stop", "over")] * ITEMS
        assert transport.requests == 2  # the first one does not wait for the others
        state = (await server.control.load("e")).state
        assert state.status == "ok"

    with_loop(work)


def test_one_of_several_reports_fails_alone() -> None:
    async def work(_: LinkedServer[Counted], link: LinkClient, transport: Counted, grants: list[Grant]) -> None:
        reports = [report_of(each) for each in grants[:4]]
        reports[2] = Report(frame="start#1[2]", position=0, facts=reports[2].facts, epoch=(0, 0))
        other = next(
            f"e{n}" for n in range(10_000) if partition_of(f"e{n}", PARTITIONS) == partition_of("e", PARTITIONS)
        )
        answers = await asyncio.gather(
            *(link.report("e", each) for each in reports), link.report(other, reports[0]), return_exceptions=True
        )
        over = ReportAnswer("stop", "over")
        assert answers[:4] == [over, over, ReportAnswer("stop", "fenced"), over]
        assert isinstance(answers[4], NotFound)
        assert transport.requests == 2

    with_loop(work)


def test_a_cancelled_report_does_not_affect_the_others() -> None:
    async def work(_: LinkedServer[Counted], link: LinkClient, transport: Counted, grants: list[Grant]) -> None:
        tasks = [asyncio.ensure_future(link.report("e", report_of(each))) for each in grants[:4]]
        await turn()
        tasks[1].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(answers[1], asyncio.CancelledError)
        assert [answers[each] for each in (0, 2, 3)] == [ReportAnswer("stop", "over")] * 3
        assert transport.requests == 2

    with_loop(work)


def test_an_owner_of_0_1_0_gets_single_reports() -> None:
    async def work(server: LinkedServer[Counted], link: LinkClient, transport: Counted, grants: list[Grant]) -> None:
        answer = server.server._receive

        def answer_as_older(partition: int | None, message: Message) -> None:
            if b'"ask":"reports"' in message.data:
                words = 'asked for "reports" in version 1 of the link, and the server speaks 1'
                error = Unavailable(f"{words}: run the same version of noetl everywhere")
                server.server._spawn(server.server._reply(message.reply, encode_error(error)))
            else:
                answer(partition, message)

        number = partition_of("e", PARTITIONS)
        await server.server.follow(set())
        server.server._receive = answer_as_older  # type: ignore[method-assign]
        await server.server.follow({number})
        answers = await asyncio.gather(*(link.report("e", report_of(each)) for each in grants))
        assert answers == [ReportAnswer("stop", "over")] * ITEMS
        assert transport.requests == ITEMS + 1

    with_loop(work)


def test_without_an_owner_every_report_is_unavailable() -> None:
    async def work(server: LinkedServer[Counted], link: LinkClient, _: Counted, grants: list[Grant]) -> None:
        await server.server.follow(set())
        answers = await asyncio.gather(*(link.report("e", report_of(each)) for each in grants), return_exceptions=True)
        assert all(isinstance(each, Unavailable) for each in answers)
        assert len({id(each) for each in answers}) == ITEMS

    with_loop(work)


def test_a_worker_of_another_pool_may_not_report_in_a_batch_either() -> None:
    async def main() -> None:
        bus, pools = MemoryBus(), {"default": [KEY], "gpu": [KEY]}
        async with asyncio.timeout(60), served(lambda: Counted(bus), {"loop": LOOP}, pools=pools) as parts:
            server, transport, playbooks = parts
            await server.link.start("e", playbooks.digests["loop"], Start())
            grants = [await server.link.begin("e", f"start#1[{index}]", "w") for index in range(4)]
            identity = LinkIdentity("gpu", KEY, server.clock, worker="w")
            link = LinkClient(transport, Programs(playbooks), identity=identity)
            reports = [report_of(each) for each in grants if each is not None]
            answers = await asyncio.gather(*(link.report("e", each) for each in reports), return_exceptions=True)
            assert [getattr(each, "code", each) for each in answers] == ["not-permitted"] * 4
            assert len(server.refused) == 4

    asyncio.run(main())


def test_a_request_has_a_limited_number_of_reports_of_one_partition() -> None:
    report = ReportRequest("e", Report(frame="start#1", position=0, epoch=(1, 1)))
    number = partition_of("e", PARTITIONS)
    _check_subject(ReportsRequest((report,) * BATCH_MAX), number)
    with pytest.raises(Rejected, match="reports at most"):
        _check_subject(ReportsRequest((report,) * (REPORTS_MAX + 1)), number)
    with pytest.raises(Rejected, match="not for"):
        _check_subject(ReportsRequest((report,)), number + 1)


def test_the_wire_format() -> None:
    wire = (
        b'{"v":1,"ask":"reports","body":{"reports":[{"execution_id":"e","report":'
        b'{"frame":"start#1","position":0,"epoch":[1,1]},"room":1}]}}'
    )
    report = Report(frame="start#1", position=0, epoch=(1, 1))
    assert decode_request(wire) == ReportsRequest((ReportRequest("e", report, 1),))
