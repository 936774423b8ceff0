"""The process that analyses large texts. It has no credentials, a low priority, and limits of memory."""

from __future__ import annotations

import sys
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from noetl.errors import PlaybookError, Problem
from noetl.playbook.kinds import Kinds
from noetl.server.analysis import PROBLEMS_MAX, TextAnalysis, TooLargeToDraw
from noetl.server.child_process import limit_resources, peak_kib, read_message, write_message
from noetl.tool import Tools

NICE: Final = 10  # requests of others, and the executions, come first
KEPT_KIB_MAX: Final = 160 << 10  # a process that has used more memory ends after its answer


class Analysed(Struct, frozen=True, kw_only=True, tag="analysed"):
    body: bytes
    last: bool  # the process has used much memory: another one takes the next text


class HasProblems(Struct, frozen=True, kw_only=True, tag="problems"):
    problems: tuple[Problem, ...]  # the first ones
    count: int
    last: bool


class CannotDraw(Struct, frozen=True, kw_only=True, tag="cannot-draw"):
    detail: str
    last: bool


Answer: TypeAlias = Analysed | HasProblems | CannotDraw


def _answer(analysis: TextAnalysis, kinds: Kinds) -> Answer:
    try:
        body = analysis.body(kinds)
        return Analysed(body=body, last=_is_large())
    except PlaybookError as error:
        return HasProblems(problems=error.problems[:PROBLEMS_MAX], count=len(error.problems), last=_is_large())
    except TooLargeToDraw as error:
        return CannotDraw(detail=str(error), last=_is_large())


def _is_large() -> bool:
    return peak_kib() > KEPT_KIB_MAX


def main() -> None:
    limit_resources(nice=NICE)
    kinds = Tools.installed().kinds()
    decoder = msgspec.msgpack.Decoder(TextAnalysis)
    while True:
        try:
            message = read_message(sys.stdin.buffer)
        except EOFError:  # the server has ended
            return
        write_message(sys.stdout.buffer, _answer(decoder.decode(message), kinds))


if __name__ == "__main__":
    main()
