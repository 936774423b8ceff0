"""The settings of sign-in: incomplete, wrong and contradictory ones are refused with the names of the variables."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from noetl.errors import Rejected
from noetl.ports import RoleGrant
from noetl.runtime.doctor.sign_in import check_sign_in
from noetl.runtime.settings import Settings
from noetl.runtime.sign_in import oidc_settings, public_url
from noetl.secret import Secret
from tests.api.hostile_provider import hostile_provider
from tests.ports import free_port
from tests.unit.cli.invoke import noetl

COMPLETE = {
    "NOETL_PUBLIC_URL": "https://noetl.example.com/",
    "NOETL_OIDC_ISSUER": "https://login.example.com/realms/main",
    "NOETL_OIDC_CLIENT_ID": "noetl",
    "NOETL_OIDC_CLIENT_SECRET": "hidden-client-secret",
    "NOETL_OIDC_ROLES": '{"ops": [{"role": "operator", "paths": ["orders/*"]}]}',
}


def test_without_variables_there_is_no_provider() -> None:
    settings = Settings.from_environment({})
    assert (oidc_settings(settings), public_url(settings)) == (None, "")


def test_all_settings_of_a_provider() -> None:
    settings = oidc_settings(Settings.from_environment(COMPLETE))
    assert settings is not None
    assert settings.redirect_uri == "https://noetl.example.com/session/oidc/callback"
    assert settings.label == "login.example.com"
    assert settings.client_secret == Secret("hidden-client-secret")
    assert settings.roles == {"ops": (RoleGrant(role="operator", paths=("orders/*",)),)}
    assert (settings.scopes, settings.groups_claim) == ("openid profile email", "groups")
    assert "hidden-client-secret" not in repr(settings)


def test_the_secret_and_the_roles_may_be_in_files(tmp_path: Path) -> None:
    secret, roles = tmp_path / "secret", tmp_path / "roles.json"
    secret.write_text("hidden-client-secret\n")
    roles.write_text(COMPLETE["NOETL_OIDC_ROLES"])
    given = {**COMPLETE, "NOETL_OIDC_CLIENT_SECRET_FILE": str(secret), "NOETL_OIDC_ROLES": str(roles)}
    del given["NOETL_OIDC_CLIENT_SECRET"]
    assert oidc_settings(Settings.from_environment(given)) == oidc_settings(Settings.from_environment(COMPLETE))


@pytest.mark.parametrize(
    "missing", ["NOETL_PUBLIC_URL", "NOETL_OIDC_ISSUER", "NOETL_OIDC_CLIENT_ID", "NOETL_OIDC_ROLES"]
)
def test_a_missing_setting_is_named(missing: str) -> None:
    with pytest.raises(Rejected, match=f"also needs {missing}$"):
        oidc_settings(Settings.from_environment({**COMPLETE, missing: ""}))


WRONG = [
    ({"NOETL_OIDC_ISSUER": "http://login.example.com"}, "NOETL_OIDC_ISSUER must begin with https://"),
    ({"NOETL_OIDC_ISSUER": "login.example.com"}, "NOETL_OIDC_ISSUER must begin with https://"),
    ({"NOETL_OIDC_ISSUER": "https://login.example.com/?a=b"}, "without a query"),
    ({"NOETL_PUBLIC_URL": "http://noetl.example.com"}, "NOETL_PUBLIC_URL must begin with https://"),
    ({"NOETL_PUBLIC_URL": "https://noetl.example.com/noetl"}, "without a path"),
    ({"NOETL_PUBLIC_URL": "noetl.example.com"}, "without a path"),
    ({"NOETL_PUBLIC_URL": "https://noetl.example.com:x"}, "without a path"),
    ({"NOETL_OIDC_SCOPES": "profile"}, "must contain openid"),
    ({"NOETL_OIDC_CLIENT_SECRET_FILE": "/run/secret"}, "not both"),
    (
        {"NOETL_OIDC_CLIENT_SECRET": "", "NOETL_OIDC_CLIENT_SECRET_FILE": "/missing"},
        "CLIENT_SECRET_FILE cannot be read",
    ),
    ({"NOETL_OIDC_ROLES": "/missing"}, "NOETL_OIDC_ROLES cannot be read"),
    ({"NOETL_OIDC_ROLES": "{"}, "NOETL_OIDC_ROLES cannot be read"),
    ({"NOETL_OIDC_ROLES": "{}"}, "groups with a role each"),
    ({"NOETL_OIDC_ROLES": '{"ops": []}'}, "groups with a role each"),
    ({"NOETL_OIDC_ROLES": '{"ops": [{"role": "boss"}]}'}, 'group "ops": unknown role'),
    ({"NOETL_OIDC_ROLES": '{"ops": [{"role": "viewer", "paths": ["ord*"]}]}'}, "cannot be granted"),
    ({"NOETL_OIDC_ROLES": '{"ops": [{"role": "viewer", "path": "orders/*"}]}'}, "unknown field"),
]


@pytest.mark.parametrize(("changed", "message"), WRONG)
def test_a_wrong_setting_is_refused(changed: dict[str, str], message: str) -> None:
    with pytest.raises(Rejected, match=message) as refused:
        oidc_settings(Settings.from_environment({**COMPLETE, **changed}))
    assert "hidden-client-secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ("https://NoETL.example.com", "https://noetl.example.com"),
        ("https://noetl.example.com:443/", "https://noetl.example.com"),
        ("https://noetl.example.com:8443", "https://noetl.example.com:8443"),
        ("http://localhost:80", "http://localhost"),
        ("http://[::1]:8080/", "http://[::1]:8080"),
    ],
)
def test_the_public_address_is_written_as_browsers_do(given: str, origin: str) -> None:
    assert public_url(Settings.from_environment({"NOETL_PUBLIC_URL": given})) == origin


@pytest.mark.parametrize("name", ["NOETL_SESSION_HOURS", "NOETL_SESSION_IDLE_HOURS"])
@pytest.mark.parametrize("value", ["x", "0", "-1", "nan", "1e9"])
def test_limits_of_sessions_are_checked(name: str, value: str) -> None:
    with pytest.raises(Rejected, match=name):
        _ = Settings.from_environment({name: value}).session_limits_s


@pytest.mark.parametrize(
    ("variables", "options", "message"),
    [
        ({"NOETL_OIDC_ISSUER": "https://login.example.com"}, (), "also needs NOETL_OIDC_CLIENT_ID"),
        (COMPLETE, ("--open",), "NOETL_OIDC_ISSUER is set"),
        ({"NOETL_SESSION_HOURS": "x"}, (), "NOETL_SESSION_HOURS"),
    ],
)
def test_a_server_refuses_to_start(
    variables: dict[str, str],
    options: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert noetl("server", "--db", str(tmp_path / "noetl.db"), *options) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "noetl.db").exists()


def test_doctor_checks_the_provider() -> None:
    async def work() -> None:
        async with hostile_provider() as provider:
            variables = {**COMPLETE, "NOETL_OIDC_ISSUER": provider.issuer}
            found = await check_sign_in(variables)
            assert (found.grade, "with 1 key" in found.words) == ("ok", True), found
            provider.discovery = {"issuer": "https://evil.example"}
            found = await check_sign_in(variables)
            assert (found.grade, "another issuer" in found.words) == ("error", True), found
            for wrong in (
                {**variables, "NOETL_OIDC_ISSUER": f"http://127.0.0.1:{free_port()}"},
                {"NOETL_OIDC_ISSUER": "x"},
            ):
                found = await check_sign_in(wrong)
                assert found.grade == "error"
                assert found.cure
            assert "hidden-client-secret" not in json.dumps(found)

    asyncio.run(work())
