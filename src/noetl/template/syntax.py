"""Parses template text into Jinja2's syntax tree.

Only the lexer and the parser of Jinja2 are used, never its compiler, optimizer or runtime. Tokens are
counted while they are read, so that a hostile template is rejected before it is parsed completely.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.lexer import Token, TokenStream
from jinja2.parser import Parser

from noetl.template.limits import NESTING_MAX, TEMPLATE_CHARS_MAX, TOKENS_MAX
from noetl.template.scanner import paths_only, scan

_ENVIRONMENT = Environment(keep_trailing_newline=True)
_LEXER = _ENVIRONMENT.lexer  # looked up once: each look costs as much as a short template
_OPENING = frozenset({"lparen", "lbracket", "lbrace"})
_CLOSING = frozenset({"rparen", "rbracket", "rbrace"})
_TAG_ENDS = frozenset({"variable_end", "block_end"})
_SIGNS = frozenset({"sub", "add"})
_BLOCKS = frozenset({"if", "for", "block", "macro", "with", "autoescape", "call", "filter", "set"})
_MISTAKEN = {"&&": "and", "||": "or", "!==": "!=", "===": "=="}
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"")
_TAG = re.compile(r"\{[{%](.*?)[%}]\}", re.DOTALL)
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
_CR_STAND_INS = "\x1f\x1e\x1d\x1c"  # white space to Jinja2, but not line breaks


class Fault(NamedTuple):
    """One mistake in a template."""

    code: str  # bad-template, unknown-filter, unknown-test, bad-arguments, not-allowed
    message: str
    line: int  # within the template, from 1
    needle: str | None = None  # text of the template to point at
    fix: str | None = None  # what to write instead


class BadTemplate(Exception):
    """A template does not compile. `faults` lists all mistakes in it."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(fault.message for fault in faults))
        self.faults = faults


class TemplateStatement(NamedTuple):
    """A {% tag %} that starts a statement."""

    name: str
    line: int


class Syntax(NamedTuple):
    """A parsed template."""

    body: list[nodes.Node]
    statements: tuple[TemplateStatement, ...]
    cr_stand_in: str | None  # the character that replaces carriage returns; None: the text has none


class _LimitExceeded(Exception):
    """Raised inside Jinja2's token stream to stop its parser."""


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
        scanned = scan(source)
        tokens = iter(scanned) if scanned is not None else _counted(_LEXER.wrap(_LEXER.tokeniter(source, None)))
        self.stream = TokenStream(tokens, None, None)
        self.statements: list[TemplateStatement] = []

    def parse_statement(self) -> nodes.Node | list[nodes.Node]:
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
            raise _LimitExceeded(f"the template is too long (limit TOKENS_MAX: {TOKENS_MAX:,})", token.lineno)
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
            raise _LimitExceeded(f"the template is nested too deeply (limit NESTING_MAX: {NESTING_MAX})", token.lineno)
        yield token


def parse(source: str) -> Syntax:
    """Parse a template. Raises BadTemplate with the fault that stopped the parser."""
    if len(source) > TEMPLATE_CHARS_MAX:
        raise _bad(f"the template has {len(source):,} characters (limit TEMPLATE_CHARS_MAX: {TEMPLATE_CHARS_MAX:,})", 1)
    paths = paths_only(source)
    if paths is not None:
        return Syntax(paths, (), None)
    # Jinja2 turns every line break into \n, but text must stay unchanged.
    cr_stand_in = None
    if "\r" in source:
        cr_stand_in = next((letter for letter in _CR_STAND_INS if letter not in source), None)
        if cr_stand_in is not None:
            source = source.replace("\r", cr_stand_in)
    try:
        reader = _Reader(source)
        body = reader.subparse()
    except TemplateSyntaxError as error:
        message = _plain(error.message or "the template cannot be parsed")
        wrong, right = _symbol_instead_of_word(source, error.message or "")
        raise _bad(f"{message}; instead of {wrong} write {right}" if wrong else message, error.lineno, right) from None
    except _LimitExceeded as exceeded:
        raise _bad(*exceeded.args) from None
    except RecursionError:
        raise _bad(f"the template is nested too deeply (limit NESTING_MAX: {NESTING_MAX})", 1) from None
    except (ValueError, SyntaxError):
        # int() and literal_eval() of a number with thousands of digits.
        raise _bad("a number has too many digits", 1) from None
    return Syntax(body, tuple(reader.statements), cr_stand_in)


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


def _bad(message: str, line: int, fix: str | None = None) -> BadTemplate:
    return BadTemplate((Fault("bad-template", message, line, fix=fix),))


def _symbol_instead_of_word(source: str, message: str) -> tuple[str | None, str | None]:
    """An operator of another language in a template that cannot be parsed, and the operator of this one."""
    code = " ".join(_TAG.findall(_TEXT.sub("''", source)))
    for wrong, right in _MISTAKEN.items():
        if wrong in code:
            return wrong, right
    if "!" in code.replace("!=", ""):
        return "!", "not"
    return ("=", "==") if "'='" in message else (None, None)


def _plain(message: str) -> str:
    """Jinja2's message in our words: no names of tokens, no capital letter at the start, no full stop."""
    message = message[:1].lower() + message[1:].rstrip(".")
    for pattern, ours in _OURS:
        if found := pattern.fullmatch(message):
            message = found.expand(ours)
            break
    return message.replace("'end of print statement'", '"}}"').replace("'end of statement block'", '"%}"')
