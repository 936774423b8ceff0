"""The language on one page, for programs that write playbooks: docs/llms.txt, and `/llms.txt` of a server.

Keys, tools, scopes and filters come from the language table; only the rules at the top are written here. The page
has a limit, so that it fits into a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from noetl.output import ERROR_FIELDS, OUTPUT_FIELDS
from noetl.playbook.kinds import Kind, Kinds
from noetl.playbook.language import SCOPES, language
from noetl.playbook.shapes import (
    AnyShape,
    BooleanShape,
    ChoiceShape,
    GuardShape,
    KeyShape,
    KindShape,
    ListShape,
    MapShape,
    NumberShape,
    RecordShape,
    ReservedShape,
    Shape,
    TemplateShape,
    TextShape,
    UnionShape,
)
from noetl.template.compile import FILTERS, FUNCTIONS, TESTS
from noetl.template.registry import Builtin
from noetl.views.tool_kinds import as_text, summary_of, unfolded

TOKENS_MAX: Final = 8_000
CHARS_PER_TOKEN: Final = 3.5  # of English mixed with YAML; tokenizers differ

EXAMPLE: Final = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: orders, path: shop/orders }

keychain:
  - { name: shop, kind: bearer, token: { env: SHOP_TOKEN } }

input:
  day: { type: date, desc: the day to load }
  url: { type: string, default: "https://shop.example.com" }

workflow:
  - step: start
    tool:
      kind: http
      auth: shop
      url: "{{ workload.url }}/orders"
      params: { day: "{{ workload.day }}" }
      spec:
        timeout: 30
        policy:
          rules:
            - when: "{{ output.status == 'error' and output.error.retryable }}"
              then: { do: retry, attempts: 5, delay: 1, backoff: exponential }
            - when: "{{ output.status == 'error' }}"
              then: { do: fail }
            - else:
                then: { do: continue }
    set:
      ctx.orders: "{{ output.data.orders }}"
    next:
      arcs:
        - step: each_order
          when: "{{ ctx.orders | length > 0 }}"
        - step: end

  - step: each_order
    loop:
      in: "{{ ctx.orders }}"
      iterator: order
      spec: { mode: parallel, max_in_flight: 5, policy: { reduce: { ctx.total: sum } } }
    tool:
      - name: price
        kind: python
        input: { order: "{{ iter.order }}" }
        code: |
          def main(order):
              return order["amount"] * 1.08
        set: { ctx.total: "{{ output.data }}" }
"""

RULES: Final = """\
- Write one YAML document, check it with `noetl check FILE --format json`, fix every problem at its line and column
  (`fix` often says what to write), run `noetl fmt FILE`, then `noetl run FILE --set key=value`. Over HTTP: POST
  /playbooks/check, POST /run/<path>.
- Execution begins at the step `start`. A finished step puts tokens on its arcs; a step without arcs ends its branch.
  The target `end` ends it too. With mode `exclusive` (the default) the first arc whose `when` is true is taken, with
  `inclusive` all of them.
- A step runs its tasks in order. `output` is the result of the preceding task: after an error the rules of the task
  decide. Without rules an error fails the step; with rules, an error that none matches continues, unless
  `on_unmatched: fail` is set. An arc without `when` is taken after a success only; to continue after a failure, write
  `when: "{{ event.name == 'step.failed' }}"`.
- `output.data` is the data of a task. With a loop, `output.data` of the step is the list of the last results of its
  iterations.
- The fields of a tool are beside `kind` or under `input`; of `python`, `playbook`, `workbook` and `noop`, `input`
  holds your own values.
- State: `set: {ctx.name: …}` writes, `{{ ctx.name }}` reads. Parallel iterations need `reduce` to write the same ctx
  path.
- A value that is exactly one `{{ }}` keeps its type; in longer text it becomes text. Put templates in quotes. In SQL
  every `{{ }}` is a bound parameter, in `sh` one quoted word.
- Secrets only through `keychain` and `auth:`; they never belong in `set`, `workload` or `input` of a step.
- A list under `tool` may contain `choose` (branches), `while` and `until` (repetition) instead of a task.
- Every tool call may happen more than once after a crash: prefer idempotent requests.
"""

_SHORT: Final[dict[str, str]] = {"timeout": "number or {connect, read, total}"}
# Records that repeat others, or that few playbooks need; the reference has them.
_LEFT_OUT: Final = frozenset(
    {
        "result store", "task.spec", "compensate.spec", "compensate.spec.policy", "emit", "timeout", "items",
        "defaults", "results", "limits", "notify.spec", "notify.spec.policy", "workbook block",
    }
)  # fmt: skip
DECISIONS: Final = re.compile(r"\s\(D\d+\)")


def language_card(kinds: Kinds) -> str:
    """The whole page, as Markdown."""
    parts = [
        "# NoETL\n\n> Playbooks in YAML that orchestrate APIs, databases and scripts. This is the language in short.",
        f"## Rules\n\n{RULES}",
        f"## Example\n\n```yaml\n{EXAMPLE}```",
        "## Keys\n\n`*` marks required keys, `=` a default, `T` a value that may be a template.\n",
        "\n".join(_records(language(kinds), kinds)),
        "## Scopes in templates\n\n" + "\n".join(f"- `{name}`: {words}" for name, words in SCOPES.items()),
        f"`output` has {', '.join(OUTPUT_FIELDS)}; `output.error` has {', '.join(ERROR_FIELDS)}. "
        "Later tasks of a step read earlier ones by name: `fetch.data`.",
        f"## Filters, tests, functions\n\nFilters: {_builtins(FILTERS)}.\n\nTests (`is …`): {_builtins(TESTS)}.\n\n"
        f"Functions: {_builtins(FUNCTIONS)}.",
        "## Tools\n\n" + "\n".join(_tool(kind) for kind in kinds.values()),
        "## More\n\n"
        "- [Language](reference/language.md), [tools](reference/tools.md), [filters](reference/filters.md), "
        "[problems](reference/problems.md), [command line](reference/cli.md), [HTTP API](reference/api.md)\n"
        "- [Examples](examples/index.md), [guides](guides/checking.md), [tutorial](tutorial/index.md)\n"
        "- `noetl schema` prints the JSON Schema, `noetl tools KIND` one tool, `noetl explain FILE` a playbook.",
    ]
    return DECISIONS.sub("", "\n\n".join(part.rstrip("\n") for part in parts)) + "\n"


def estimated_tokens(text: str) -> int:
    return round(len(text) / CHARS_PER_TOKEN)


def _records(root: RecordShape, kinds: Kinds) -> Iterator[str]:
    """One line for each record."""
    for title, shape, keys in walk_records(root, kinds):
        if not shape:
            yield f"- **{title}**: {', '.join(name for name in keys if name not in ('name', 'kind', 'desc'))}"
        elif title not in _LEFT_OUT:
            yield f"- **{title}**: " + "; ".join(key_line(name, key) for name, key in keys.items())


def walk_records(root: RecordShape, kinds: Kinds) -> Iterator[tuple[str, RecordShape | None, Mapping[str, KeyShape]]]:
    """Title, shape and keys of each record, breadth first; a record that occurs again is described once.

    The variants of a record that has a kind come without their shape.
    """
    seen: set[str] = set()
    waiting: list[Shape] = [root]
    while waiting:
        shape = waiting.pop(0)
        match shape:
            case RecordShape(title, _, keys):
                own = {name: key for name, key in keys.items() if not _is_minor(name, key, kinds)}
                title = f"admission {title}" if "allow" in keys else title
                if title in seen:
                    continue
                seen.add(title)
                waiting += [key.shape for key in own.values()]
                yield title, shape, own
            case KindShape("task", _, _, unknown, others):
                waiting += [unknown, *(others.values() if "choose" not in seen else ())]
            case KindShape(title, _, records):
                for kind, record in records.items():
                    if f"{title} {kind}" not in seen:
                        seen.add(f"{title} {kind}")
                        yield f"{title}, kind {kind}", None, record.keys
            case MapShape(of) | ListShape(of):
                waiting.append(of)
            case UnionShape(shapes):
                waiting += shapes


def _is_minor(name: str, key: KeyShape, kinds: Kinds) -> bool:
    """Whether it has no effect, or is a part of a spec that applies to one kind only."""
    return isinstance(key.shape, ReservedShape) or (name in kinds and isinstance(key.shape, RecordShape))


def key_line(name: str, key: KeyShape) -> str:
    sign = "*" if key.required else ""
    default = f" = {as_text(key.default)}" if key.default is not None else ""
    return f"`{name}`{sign} ({_SHORT.get(name) or _type(key.shape)}{default}) {key.doc}"


def _type(shape: Shape) -> str:
    match shape:
        case TextShape(templated):
            return "text T" if templated else "text"
        case BooleanShape(templated):
            return "bool T" if templated else "bool"
        case NumberShape(_, whole, templated):
            return ("int" if whole else "number") + (" T" if templated else "")
        case ChoiceShape(values):
            return " | ".join(values)
        case GuardShape():
            return "T or bool"
        case TemplateShape():
            return "T"
        case AnyShape():
            return "any T"
        case MapShape(of):
            return "map" if isinstance(of, AnyShape) else f"map of {_type(of)}"
        case ListShape(of):
            return f"list of {_type(of)}"
        case RecordShape(title) | KindShape(title):
            return title
        case UnionShape(shapes):
            words = dict.fromkeys(filter(None, (_type(each) for each in shapes)))
            return " or ".join(word for word in words if word != "T") + (" T" if "T" in words else "")
    return ""


def _builtins(table: Mapping[str, Builtin]) -> str:
    return ", ".join(dict.fromkeys(f"`{entry.signature}`" for entry in table.values()))


def _tool(kind: Kind) -> str:
    fields = "; ".join(_field(name, key) for name, key in kind.fields.keys.items())
    own = f" Output: `output.{kind.output}` ({', '.join(kind.output_fields.keys)})." if kind.output_fields else ""
    one_of = "".join(f" Exactly one of {', '.join(group)}." for group in kind.one_of)
    return f"- **{kind.name}**: {summary_of(unfolded(kind.doc))}.{f' Fields: {fields}.' if fields else ''}{one_of}{own}"


def _field(name: str, key: KeyShape) -> str:
    default = f" = {as_text(key.default)}" if key.default not in (None, [], {}, "") else ""
    values = f" ({' | '.join(key.shape.values)})" if isinstance(key.shape, ChoiceShape) else ""
    return f"`{name}`{'*' if key.required else ''}{values}{default}"
