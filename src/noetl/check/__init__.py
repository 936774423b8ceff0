"""Static checks of a playbook: names, references, soundness, advice, embedded code."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """`noetl.check` is this package and a function of the public API: calling it checks a playbook."""

    def __call__(self, playbook: Any, **options: Any) -> Any:
        return import_module("noetl.session.api").check(playbook, **options)


sys.modules[__name__].__class__ = _CallablePackage
