"""The settings: values of environment variables, defaults, and the documentation of each variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.defaults import LEASE_S
from noetl.errors import Rejected
from noetl.runtime.settings import Settings, database_path, variables


def test_without_variables_all_settings_have_their_defaults() -> None:
    assert Settings.from_environment({}) == Settings()
    assert Settings().lease_s == LEASE_S
    assert Settings().keep_days is None
    assert Settings().result_stores() == ["files"]


def test_each_variable_sets_its_field() -> None:
    for field, variable in variables().items():
        assert getattr(Settings.from_environment({variable.name: "7"}), field) == "7", field


def test_every_field_is_documented_and_names_are_unique() -> None:
    names = [variable.name for variable in variables().values()]
    assert tuple(variables()) == Settings.__struct_fields__
    assert len(set(names)) == len(names)
    assert all(variable.meaning.endswith(".") and variable.default for variable in variables().values())


def test_an_empty_variable_counts_as_not_set_but_an_empty_list_of_folders_permits_none() -> None:
    empty = Settings.from_environment({variable.name: "" for variable in variables().values()})
    assert empty == Settings(secret_folders="")
    assert Settings().secret_folders is None


def test_numbers_are_checked_when_they_are_used() -> None:
    settings = Settings.from_environment({"NOETL_LEASE": "soon", "NOETL_KEEP_DAYS": "many"})
    with pytest.raises(Rejected, match="NOETL_LEASE must be a number of seconds"):
        _ = settings.lease_s
    with pytest.raises(Rejected, match="NOETL_KEEP_DAYS must be a number of days"):
        _ = settings.keep_days
    assert Settings(lease="0.1").lease_s == 1.0
    assert Settings(keep="1.5").keep_days == 1.5


def test_secrets_are_not_in_the_repr() -> None:
    assert repr(Settings(token="hush", key="hush", link_key="hush")) == "Settings(***)"


def test_a_database_file_is_found_and_postgresql_is_refused() -> None:
    assert database_path(None, {"XDG_DATA_HOME": "/data"}) == Path("/data/noetl/noetl.db")
    assert database_path(None, {"NOETL_DB": "/x.db"}) == Path("/x.db")
    assert database_path("/y.db", {"NOETL_DB": "/x.db"}) == Path("/y.db")
    with pytest.raises(Rejected, match="through a server"):
        database_path(None, {"NOETL_DB": "postgresql://db/noetl"})
