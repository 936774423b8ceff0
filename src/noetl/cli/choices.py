"""The words that options take. It imports nothing heavy, so that help and usage errors are quick."""

from __future__ import annotations

from typing import Literal, TypeAlias

FormatChoice: TypeAlias = Literal["auto", "rich", "plain", "json"]
DialectChoice: TypeAlias = Literal["canonical", "auto"]
GraphChoice: TypeAlias = Literal["mermaid", "dot", "svg"]
