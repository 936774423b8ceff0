"""Ids inside an execution: paths, derived from the state, so that they are the same on every replay.

===========================  ==================================================
``fetch#2``                  the second firing of step ``fetch``
``fetch#2[17]``              its iteration 17: a frame
``fetch#2[17]/5``            the fifth call in that frame
``fetch#2>0``                the token on its first arc
``fetch#2[17]@5.0``          the permit of that call, for its first try
``crawl#1[3]/hotels#1``      a run of the block ``hotels``, called from that frame
===========================  ==================================================
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from zlib import crc32

START_TOKEN = ">0"


def run_id(step: str, firing: int) -> str:
    return f"{step}#{firing}"


def block_run_id(frame: str, block: str, firing: int) -> str:
    return f"{frame}/{block}#{firing}"


def token_id(run: str, arc: int) -> str:
    return f"{run}>{arc}"


def run_of_token(token: str) -> str:
    """The run that has made a token; "" for the first one."""
    return token.rpartition(">")[0]


def frame_id(run: str, index: int | None) -> str:
    return run if index is None else f"{run}[{index}]"


@lru_cache(maxsize=16_384)  # called many times while a frame is in flight
def frame_parts(frame: str) -> tuple[str, int | None]:
    """The run and the index in the id of a frame."""
    if not frame.endswith("]"):
        return frame, None
    run, _, index = frame[:-1].rpartition("[")
    return run, int(index)


def call_id(frame: str, number: int) -> str:
    return f"{frame}/{number}"


def permit_id(frame: str, number: int, tries: int) -> str:
    return f"{frame}@{number}.{tries}"


def permit_frame(permit: str) -> str:
    """The frame of a permit of a call."""
    return permit.rpartition("@")[0]


def frame_of_call(call: str) -> str:
    return call.rpartition("/")[0]


def names_in_call(call: str) -> frozenset[str]:
    """What a person may call it by: `crawl#1[3]/hotels#1[7]/2`, its frame and run, and the steps `crawl` and `hotels`.

    Also the runs and frames around it.
    """
    names = {call}
    parts = frame_of_call(call).split("/")
    for count, part in enumerate(parts, 1):
        frame = "/".join(parts[:count])
        run = frame.rpartition("[")[0] if frame.endswith("]") else frame
        names |= {frame, run, part.partition("#")[0]}
    return frozenset(names)


@lru_cache(maxsize=1_024)  # each HTTP call sends it
def trace_id(execution_id: str) -> str:
    """Of its hash: services that tools call receive the trace id, but not the execution id."""
    return sha256(execution_id.encode()).hexdigest()[:32]


def partition_of(execution_id: str, partitions: int) -> int:
    """The partition of an execution: the same on every server."""
    return crc32(execution_id.encode()) % partitions


def place_of_frame(frame: str) -> str:
    """The steps and blocks of a frame without firings and iterations: `crawl/hotels`."""
    return "/".join(part.partition("#")[0] for part in frame.split("/"))


def step_of_token(token: str) -> str:
    """The step whose arc made the token; empty for the first token."""
    return place_of_frame(token.rpartition(">")[0])
