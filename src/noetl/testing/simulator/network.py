"""The network of a simulated cluster: for a period, messages from one machine to another are lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from noetl.errors import Unavailable
from noetl.testing.simulator.loop import SimLoop

T = TypeVar("T")
TIMEOUT_S = 2.0  # of a request whose answer does not come
REFUSED_S = 0.05  # of a request to a machine that refuses connections
BEGIN_S = 15.0  # at most: executions are still running
LENGTHS_S = (3.0, 8.0, 20.0, 40.0)  # at most; a lease is 5 s
UNKNOWN_S = 1.0  # at most: at the beginning of an outage requests have effects, and their answers are lost


class Cut(NamedTuple):
    """Messages from one machine to another are lost for a period. Those in the other direction arrive.

    Machines: "s0", "w2", "queue", "store". A prefix of several names means all of them, and "" any machine.
    """

    source: str
    target: str
    begin_s: float
    end_s: float
    refuses: bool = False  # requests fail at once, as after a crash of the target; False: after a timeout


class Outage(NamedTuple):
    """A fault that lasts: cuts, and the crash of a server or worker meanwhile."""

    cuts: tuple[Cut, ...]
    crash: str = ""  # the machine
    crash_s: float = 0.0  # when

    @property
    def end_s(self) -> float:
        return max(self.crash_s, *(cut.end_s for cut in self.cuts))


class SimNetwork:
    """Loses the messages of one request, or its answer."""

    def __init__(self, loop: SimLoop, cuts: Sequence[Cut]) -> None:
        self._loop = loop
        self._cuts = cuts
        self.lost = 0  # messages

    def here(self) -> str:
        """The machine of the running process: "s0" of "s0.2"."""
        return self._loop.process_name().partition(".")[0]

    def is_lost(self, source: str, target: str) -> Cut | None:
        """The cut that loses a message now; None: it arrives. Messages inside a machine are never lost."""
        now = self._loop.time()
        for cut in self._cuts:
            matches = source.startswith(cut.source) and target.startswith(cut.target)
            if matches and source != target and cut.begin_s <= now < cut.end_s:
                self.lost += 1
                return cut
        return None

    async def request(self, target: str, work: Callable[[], Awaitable[T]]) -> T:
        """A request of the running process. Raises Unavailable when it is lost, or its answer."""
        source = self.here()
        if (cut := self.is_lost(source, target)) is not None:
            await self._fail(cut)
        done = await work()
        if (cut := self.is_lost(target, source)) is not None:
            await self._fail(cut)
        return done

    async def _fail(self, cut: Cut) -> None:
        await self._loop.sleeping(REFUSED_S if cut.refuses else TIMEOUT_S)
        raise Unavailable(f"no answer: messages from {cut.source or 'all'} to {cut.target or 'all'} are lost")


def random_outages(loop: SimLoop, machines: Sequence[str]) -> tuple[Outage, ...]:
    """Each kind of outage is absent in most clusters (swarm testing)."""
    random = loop.random
    found = [one_way(*_period(loop), pairs) for pairs in _pairs(loop, machines) if random.random() < 0.06]
    if random.random() < 0.2:
        begin_s, end_s = _period(loop)
        found.append(store_outage(begin_s, end_s, random.random() * UNKNOWN_S, refuses=random.random() < 0.5))
    return tuple(_with_crash(loop, each, machines) for each in found)


def one_way(begin_s: float, end_s: float, pairs: Sequence[tuple[str, str]]) -> Outage:
    """`pairs`: the source and target of lost messages."""
    return Outage(tuple(Cut(source, target, begin_s, end_s) for source, target in pairs))


def store_outage(begin_s: float, end_s: float, unknown_s: float = 0.0, *, refuses: bool = True) -> Outage:
    """No request to the store is answered. Those of the first `unknown_s` seconds have an effect."""
    answers = Cut("store", "", begin_s, end_s, refuses)
    return Outage((answers, Cut("", "store", begin_s + unknown_s, end_s, refuses)))


def _pairs(loop: SimLoop, machines: Sequence[str]) -> list[list[tuple[str, str]]]:
    choice = loop.random.choice
    servers, workers = ([machine for machine in machines if machine.startswith(kind)] for kind in "sw")
    machine, on_nats = choice(machines), (*machines, "queue")
    return [
        [(choice(("w", *workers, *servers)), choice(servers))],  # requests
        [(choice(servers), choice(("w", *workers, *servers)))],  # their answers
        [(choice(servers), "queue")],  # pointers are not published
        [("queue", choice(("w", *workers)))],  # they are lost on their way to a worker
        [("queue", choice(servers))],  # they are published, and the server does not know it
        [(choice(servers), "store")],
        [("store", choice(servers))],
        [(machine, other) for other in on_nats],  # requests and answers of one machine pass through NATS
        [(other, machine) for other in on_nats],
        [(source, target) for source in on_nats for target in on_nats],
    ]


def _period(loop: SimLoop) -> tuple[float, float]:
    random = loop.random
    begin_s = random.random() * BEGIN_S
    return begin_s, begin_s + (0.2 + 0.8 * random.random()) * random.choice(LENGTHS_S)


def _with_crash(loop: SimLoop, outage: Outage, machines: Sequence[str]) -> Outage:
    """A machine may crash shortly after the beginning, or at any moment until the end."""
    random = loop.random
    if random.random() < 0.6:
        return outage
    begin_s = outage.cuts[0].begin_s
    until_s = random.choice((begin_s + 1.0, outage.end_s))
    return outage._replace(crash=random.choice(machines), crash_s=begin_s + random.random() * (until_s - begin_s))
