"""A read-only check of the OpenID Connect provider: the settings, its discovery document and its keys."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.clock import SystemClock
from noetl.errors import Rejected
from noetl.net.describe import count
from noetl.runtime.doctor import Diagnosis
from noetl.runtime.settings import OIDC_ISSUER, Settings
from noetl.runtime.sign_in import oidc_settings
from noetl.server.oidc import OidcProvider, SignInRefused

CHECK = "sign-in"


async def check_sign_in(environment: Mapping[str, str]) -> Diagnosis:
    """The client id and its secret are not checked: only a sign-in proves them."""
    try:
        settings = oidc_settings(Settings.from_environment(environment))
    except Rejected as error:
        return Diagnosis(CHECK, "error", str(error), "see docs/guides/access.md: sign-in with OpenID Connect")
    assert settings is not None, "a variable is set"
    provider = OidcProvider(settings, SystemClock())
    try:
        keys = await provider.keys(await provider.metadata())
    except SignInRefused as refused:
        cure = f"check {OIDC_ISSUER} and the network; the server needs to reach the provider, too"
        return Diagnosis(CHECK, "error", f"the provider {settings.issuer} cannot be used: {refused}", cure)
    finally:
        await provider.close()
    words = f"the provider {settings.issuer} answers, with {count(len(keys.keys), 'key')}"
    return Diagnosis(CHECK, "ok", f"{words}; it must know the redirect URI {settings.redirect_uri}")
