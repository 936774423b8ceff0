"""A pure, bounded expression language over JSON values, with the syntax of Jinja2.

The package imports no other package of NoETL. Its public names are loaded on first use, because the parser
and RE2 take time to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noetl.template.compile import Template, Value, compile_template, compile_value
    from noetl.template.context import Read
    from noetl.template.limits import json_text
    from noetl.template.syntax import BadTemplate, Fault
    from noetl.template.values import Moment, TemplateError, is_template, truth

__all__ = [
    "BadTemplate",
    "Fault",
    "Moment",
    "Read",
    "Template",
    "TemplateError",
    "Value",
    "compile_template",
    "compile_value",
    "is_template",
    "json_text",
    "truth",
]

_MODULES = {
    "compile": ("Template", "Value", "compile_template", "compile_value"),
    "context": ("Read",),
    "limits": ("json_text",),
    "syntax": ("BadTemplate", "Fault"),
    "values": ("Moment", "TemplateError", "is_template", "truth"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"noetl.template.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
