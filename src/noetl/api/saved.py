"""Bodies of the routes for values that outlive an execution."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from noetl.api.executions import to_datetime
from noetl.output import JSON
from noetl.ports import SavedValue
from noetl.views.log import instant


class SavedItem(Struct, frozen=True, kw_only=True):
    """A value of `saved.*`, now or earlier."""

    key: str
    value: JSON
    at: str
    execution_id: str | None  # that set it; None: a person
    by: str | None  # the name of the token that set it
    removed: bool | UnsetType = UNSET  # in a history: it was removed then

    @staticmethod
    def from_value(value: SavedValue) -> SavedItem:
        return SavedItem(
            key=value.key,
            value=value.value,
            at=instant(value.at),
            execution_id=value.execution_id,
            by=value.by,
            removed=value.removed or UNSET,
        )

    def to_value(self) -> SavedValue:
        """Raises msgspec.ValidationError when the time is invalid."""
        return SavedValue(self.key, self.value, to_datetime(self.at), self.execution_id, self.by, self.removed is True)


class SavedList(Struct, frozen=True, kw_only=True):
    items: tuple[SavedItem, ...]


class SavedRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    value: JSON  # at most 64 KiB
