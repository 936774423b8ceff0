"""Feed damaged inputs to the parsers of untrusted text, and keep those that violate an invariant.

`python -m scripts.fuzz SECONDS [yaml playbook template migrate]`. The script shortens each finding and
writes it to tests/fixtures/corpus, which the tests run. Inputs are real playbooks, templates and the corpus,
damaged at random; the script prints the seed.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random  # noqa: TID251  # a seed makes findings reproducible
from typing import Final

from noetl.clock import SystemClock
from noetl.template.compile import FILTERS, METHODS, TESTS
from tests.hostile.invariants import CORPUS, JUDGES, verdict

ROOT: Final = Path(__file__).parents[1]
BYTES_MAX: Final = 1 << 16
SHORTEN_TRIES: Final = 2_000
_TEMPLATE: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_PIECES: Final = [
    *(b"{{ ", b" }}", b"{% ", b" %}", b"{#", b"#}", b"[", b"]", b"{", b"}", b"(", b")", b": ", b"- ", b"? "),
    *(b"&a ", b"*a", b"<<: ", b"!!str ", b"!x ", b"|\n", b">\n", b"---\n", b"...\n", b"#", b"\t", b"\r\n"),
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", "\u2028".encode(), "\ud800".encode("utf-8", "surrogatepass")),
    *(b"'", b'"', b"\\", b"\n", b"  ", b",", b"~", b".", b"..", b"|", b"=", b"%", b"*", b"**", b"//", b"-"),
    *(b"9" * 40, b"1e999", b"-0", b"0x", b".inf", b"null", b"true", b"[" * 70, b"{a: " * 70, b"a" * 3_000),
    *(b"workload", b"ctx", b"iter", b"output", b"_prev", b"loop", b"is ", b" not ", b" in "),
    *(b"for x in ", b"endfor", b"endif", b"step: ", b"tool: ", b"kind: ", b"next: ", b"arcs: ", b"when: "),
    *(b" if ", b" else "),
    *(b"do: jump", b"do: retry", b"to: ", b"spec: ", b"policy: ", b"rules: ", b"set: ", b"loop: ", b"in: "),
    *(name.encode() for table in (FILTERS, METHODS, TESTS) for name in sorted(table)),
]  # fmt: skip


class Fuzzer:
    """One run with a seed."""

    def __init__(self, seed: int, targets: list[str], folder: Path) -> None:
        """`folder`: for the findings."""
        self._random = Random(seed)
        self._folder = folder
        self._seeds = {name: _seeds(name) for name in targets}
        self.tried: Counter[str] = Counter()
        self.kept: dict[str, Path] = {}  # by the sort of fault

    def turn(self) -> None:
        name = self._random.choice(list(self._seeds))
        data = self._damaged(self._seeds[name])
        self.tried[name] += 1
        fault = verdict(JUDGES[name], data)
        if fault is not None and (sort := f"{name}: {_sort(fault)}") not in self.kept:
            self.kept[sort] = _keep(self._folder / name, _shortened(JUDGES[name], data, fault))
            print(f"{sort}\n  {fault[:300]}\n  {self.kept[sort]}", flush=True)

    def _damaged(self, seeds: list[bytes]) -> bytes:
        random, data = self._random, bytearray(self._random.choice(seeds))
        for _ in range(random.choice((1, 1, 2, 4, 8, 16))):
            place = random.randrange(len(data) + 1)
            much = min(int(2 ** (random.random() * 8)), len(data) - place)
            match random.randrange(6):
                case 0:
                    del data[place : place + much]
                case 1:
                    data[place:place] = data[place : place + much] * random.choice((1, 2, 30))
                case 2:
                    other = random.choice(seeds)
                    start = random.randrange(len(other) + 1)
                    data[place : place + much] = other[start : start + int(2 ** (random.random() * 8))]
                case 3:
                    data[place : place + 1] = bytes([random.randrange(256)])
                case _:
                    data[place : place + random.choice((0, 0, much))] = random.choice(_PIECES)
            del data[BYTES_MAX:]
        return bytes(data)


def _seeds(name: str) -> list[bytes]:
    own = [file.read_bytes() for file in sorted((CORPUS / name).glob("*")) if file.is_file()]
    folders = ("examples", "tests/fixtures/problems", "tests/fixtures/rejects", "tests/fixtures/seeds")
    texts = [file.read_bytes() for folder in folders for file in sorted((ROOT / folder).rglob("*.yaml"))]
    texts += [file.read_bytes() for file in sorted((ROOT / "tests/fixtures/migrate").glob("*.yaml"))]
    if name == "template":
        found = {word for text in texts for word in _TEMPLATE.findall(text.decode("utf-8", "replace"))}
        return own + [word.encode() for word in sorted(found)]
    return own + texts


def _sort(fault: str) -> str:
    """The kind and the place of a fault: inputs of the same sort show the same fault."""
    kind, place = fault.partition(":")[0], re.search(r"\(([\w.]+:\d+)\)$", fault)
    return "slow" if fault.startswith("it took") else f"{kind} at {place[1] if place else '?'}"


def _shortened(judge: Callable[[bytes], None], data: bytes, fault: str) -> bytes:
    """Remove all parts of the input that the fault does not need."""
    tries, size = SHORTEN_TRIES, max(1, len(data) // 2)
    while size and tries > 0:
        place = 0
        while place < len(data) and tries > 0:
            shorter, tries = data[:place] + data[place + size :], tries - 1
            other = verdict(judge, shorter)
            if other is not None and _sort(other) == _sort(fault):
                data = shorter
            else:
                place += size
        size //= 2
    return data


def _keep(folder: Path, data: bytes) -> Path:
    file = folder / f"found-{hashlib.sha256(data).hexdigest()[:12]}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def main(arguments: list[str]) -> int:
    if not arguments or not arguments[0].isdigit() or not set(arguments[1:]) <= set(JUDGES):
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    clock = SystemClock()
    seed = int(clock.now().timestamp())
    fuzzer = Fuzzer(seed, arguments[1:] or list(JUDGES), CORPUS)
    print(f"seed {seed}", flush=True)
    ends_at = clock.monotonic() + int(arguments[0])
    while clock.monotonic() < ends_at:
        fuzzer.turn()
    print(f"{fuzzer.tried.total():,} inputs ({dict(fuzzer.tried)}), {len(fuzzer.kept)} faults")
    return 1 if fuzzer.kept else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
