"""Reads template text with the lexer and the parser of Jinja2, never with its compiler, optimizer or runtime.

Tokens are counted while they are read, so that a hostile template is rejected before it is parsed completely.
Only `syntax.py` imports this module, when `parser.py` leaves a template to it: Jinja2 takes time to import.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2 import Environment, TemplateSyntaxError
from jinja2.lexer import Token, TokenStream
from jinja2.nodes import Node as JinjaNode
from jinja2.nodes import Operand
from jinja2.parser import Parser

from noetl.template import nodes
from noetl.template.limits import NESTING_MAX, TOKENS_MAX
from noetl.template.nodes import TemplateStatement
from noetl.template.values import JSON

_ENVIRONMENT = Environment(keep_trailing_newline=True)
_LEXER = _ENVIRONMENT.lexer  # looked up once: each look costs as much as a short template
_OPENING = frozenset({"lparen", "lbracket", "lbrace"})
_CLOSING = frozenset({"rparen", "rbracket", "rbrace"})
_TAG_ENDS = frozenset({"variable_end", "block_end"})
_SIGNS = frozenset({"sub", "add"})
_BLOCKS = frozenset({"if", "for", "block", "macro", "with", "autoescape", "call", "filter", "set"})
_OURS = tuple(
    (re.compile(theirs), ours)
    for theirs, ours in (
        (r"unexpected end of template, expected 'end of print statement'", 'the template has no closing "}}"'),
        (
            r"(?:unexpected|expected an expression, got) 'end of print statement'",
            'the expression is not complete: a value is missing before "}}"',
        ),
        (r"expected token 'name', got 'end of print statement'", 'a name is missing before "}}"'),
        (r"expected name or number", 'a name is missing after "."'),
        (r"expected token 'end of print statement', got '(.*)'", r'unexpected "\1" where the expression ends'),
        (r"unexpected '}', expected '(.)'", r'"\1" is missing before "}"'),
        (r"unexpected '}'", 'unexpected "}": a template ends with "}}"'),
        (r"unexpected char '\?' at \d+", 'unexpected "?": instead of "a ? b : c" write "b if a else c"'),
        (r"unexpected char (?:\"(')\"|'(\")') at \d+", r"a text that begins with \1\2 has no closing quote"),
        (r"unexpected char '(.*)' at \d+", r'unexpected "\1"'),
    )
)


class UnreadableTemplate(Exception):
    """The text is not a template. Its arguments are the message and the line."""


class OversizedTemplate(Exception):
    """The template exceeds a limit. Its arguments are the message and the line."""


class _Reader(Parser):
    """Jinja2's parser over a stream of tokens that are counted while they are read."""

    def __init__(self, source: str) -> None:
        # As in Parser.__init__, which would read an empty text first: a tenth of the time of a template.
        self.environment = _ENVIRONMENT
        self.name = self.filename = None
        self.closed = False
        self.extensions = {}
        self._last_identifier = 0
        self._tag_stack = []
        self._end_token_stack = []
        self.stream = TokenStream(_counted(_LEXER.wrap(_LEXER.tokeniter(source, None))), None, None)
        self.statements: list[TemplateStatement] = []

    def parse_statement(self) -> JinjaNode | list[JinjaNode]:
        token = self.stream.current
        self.statements.append(TemplateStatement(str(token.value), token.lineno))
        return super().parse_statement()


def _counted(tokens: Iterator[Token]) -> Iterator[Token]:
    """Yield the tokens, and stop when the parser would take too long or nest too deep."""
    blocks = brackets = run = elses = 0
    previous = ""
    for count, token in enumerate(tokens, 1):
        kind = token.type
        if count > TOKENS_MAX:
            raise OversizedTemplate(f"the template is too long (limit TOKENS_MAX: {TOKENS_MAX:,})", token.lineno)
        if kind in _OPENING:
            brackets += 1
        elif kind in _CLOSING:
            brackets -= 1
        elif kind in _TAG_ENDS:
            brackets = elses = 0
        elif kind == "name" and token.value == "else" and previous != "block_begin":
            elses += 1
        elif kind == "name" and previous == "block_begin":
            blocks += 1 if token.value in _BLOCKS else -1 if token.value.startswith("end") else 0
        run = run + 1 if kind in _SIGNS or (kind == "name" and token.value == "not") else 0
        previous = kind
        if blocks + brackets + run + elses > NESTING_MAX:
            message = f"the template is nested too deeply (limit NESTING_MAX: {NESTING_MAX})"
            raise OversizedTemplate(message, token.lineno)
        yield token


def read(source: str) -> tuple[list[nodes.Node], list[TemplateStatement]]:
    """The tree of a template, and its statements. Raises UnreadableTemplate or OversizedTemplate."""
    try:
        reader = _Reader(source)
        return _converted(reader.subparse()), reader.statements
    except TemplateSyntaxError as error:
        raise UnreadableTemplate(_plain(error.message or "the template cannot be parsed"), error.lineno) from None
    except RecursionError:
        message = f"the template is nested too deeply (limit NESTING_MAX: {NESTING_MAX})"
        raise OversizedTemplate(message, 1) from None
    except (ValueError, SyntaxError):
        # int() and literal_eval() of a number with thousands of digits.
        raise OversizedTemplate("a number has too many digits", 1) from None


def _converted(body: list[JinjaNode]) -> list[nodes.Node]:
    """Jinja2's trees as ours. It does not recurse, because a tree may have any depth."""
    made = [_node(each) for each in body]
    rest = [*made]
    while rest:
        parent = rest.pop()
        for name in parent.__struct_fields__[1:]:
            value = getattr(parent, name)
            if isinstance(value, JinjaNode):
                child = _node(value)
                setattr(parent, name, child)
                rest.append(child)
            elif type(value) is list:
                children = [_node(each) for each in value]
                setattr(parent, name, children)
                rest.extend(children)
    return made


def _node(tree: JinjaNode) -> JSON:
    """The node, with Jinja2's children."""
    made = getattr(nodes, f"{type(tree).__name__}Node", None)
    if made is None:
        return nodes.OtherStatementNode(tree.lineno, type(tree).__name__)
    line = tree.expr.lineno if isinstance(tree, Operand) else tree.lineno  # Jinja2 gives no line to an operand
    return made(line, *(value for _, value in tree.iter_fields()))


def tag_sources(source: str) -> list[str]:
    """The source text of each {{ }}, {% if %}, {% elif %} and {% for %}, in order."""
    sources: list[str] = []
    tag: list[str] = []
    for _, kind, text in _ENVIRONMENT.lex(source):
        if kind in ("variable_begin", "block_begin"):
            tag = []
        elif kind == "variable_end":
            sources.append(f"{{{{ {' '.join(''.join(tag).split())} }}}}")
        elif kind == "block_end" and tag[:1] in (["if"], ["elif"], ["for"]):
            sources.append(f"{{% {' '.join(''.join(tag).split())} %}}")
        elif tag or kind != "whitespace":
            tag.append(text)
    return sources


def _plain(message: str) -> str:
    """Jinja2's message in our words: no names of tokens, no capital letter at the start, no full stop."""
    message = message[:1].lower() + message[1:].rstrip(".")
    for pattern, ours in _OURS:
        if found := pattern.fullmatch(message):
            message = found.expand(ours)
            break
    return message.replace("'end of print statement'", '"}}"').replace("'end of statement block'", '"%}"')
