"""Security schemes → entries of the keychain, and how a request uses them."""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal, NamedTuple, TypeAlias

from noetl.importers.openapi.document import OpenApiDocument, text_of
from noetl.importers.openapi.operations import Operation, snake, unique
from noetl.output import JSON
from noetl.template.values import contains_template

Use: TypeAlias = Literal["auth", "header", "query", "cookie"]
_PLACES: Final[dict[str, Use]] = {"header": "header", "query": "query", "cookie": "cookie"}


class ApiCredential(NamedTuple):
    scheme: str
    entry: dict[str, JSON]  # of the keychain
    use: Use
    name: str  # of the header, the parameter or the cookie
    variables: tuple[str, ...]  # of the environment


class Security:
    """The credentials that the operations of a document use."""

    def __init__(self, document: OpenApiDocument, operations: list[Operation], prefix: str) -> None:
        self._document = document
        upper = prefix.upper()
        # Playbooks may not read the variables of NoETL's own settings.
        self._prefix = f"NOETL_SECRET_{upper[6:]}" if upper.startswith("NOETL_") else upper
        components = document.root.get("components")
        schemes = components.get("securitySchemes") if isinstance(components, dict) else None
        self._schemes: dict[str, ApiCredential] = {}
        for name, raw in schemes.items() if isinstance(schemes, dict) else ():
            made = self._credential(name, document.mapping(raw, f"security {name}"))
            if made is not None:
                self._schemes[name] = made
        needed = [options for each in operations if [] not in (options := self._options(each))]
        self._used = Counter(name for options in needed for option in options for name in option)
        self._chosen = {each.name: self._choice(each) for each in operations}

    def of(self, operation: Operation) -> list[ApiCredential]:
        return [self._schemes[name] for name in self._chosen[operation.name]]

    @property
    def used(self) -> list[ApiCredential]:
        names = {name for chosen in self._chosen.values() for name in chosen}
        return [made for name, made in self._schemes.items() if name in names]

    def _options(self, operation: Operation) -> list[list[str]]:
        """The alternatives of an operation; an empty one needs no credential."""
        given = operation.security if operation.security is not None else self._document.root.get("security")
        return [list(each) for each in given if isinstance(each, dict)] if isinstance(given, list) else []

    def _choice(self, operation: Operation) -> list[str]:
        options = self._options(operation)
        if not options:
            return []
        usable = [each for each in options if all(name in self._schemes for name in each) and self._fits(each)]
        if not usable:
            self._document.note(operation.where, "none of its ways to sign in can be expressed: it is sent without one")
            return []
        # Every entry of the keychain must have a value when the playbook starts, so few of them are better.
        best = max(usable, key=lambda each: (min((self._used[name] for name in each), default=0), -len(each)))
        if [] in options and any(not self._used[name] for name in best):
            best = []
        others = [" and ".join(each) or "none" for each in options if each != best]
        if others:
            chosen = " and ".join(best) or "none"
            self._document.note(operation.where, f"of its ways to sign in, {chosen} is used; also: {', '.join(others)}")
        return best

    def _fits(self, names: list[str]) -> bool:
        """A request has one `Authorization`."""
        made = [self._schemes[name] for name in names]
        heads = [each for each in made if each.use == "auth" or each.name.lower() == "authorization"]
        return len(heads) <= 1

    def _credential(self, scheme: str, raw: dict[str, JSON]) -> ApiCredential | None:
        name = unique(snake(scheme, "key"), [each.entry["name"] for each in self._schemes.values()])
        variable = f"{self._prefix}_{name.upper()}"
        where = f"security {scheme}"
        kind, style = raw.get("type"), str(raw.get("scheme", "")).lower()
        if kind == "apiKey" and raw.get("in") in _PLACES and isinstance(raw.get("name"), str):
            if contains_template(raw["name"]) or not raw["name"].isprintable():
                self._document.note(where, "its name is not valid")
                return None
            made = self._entry(raw, {"name": name, "kind": "env", "variable": variable})
            return ApiCredential(scheme, made, _PLACES[raw["in"]], raw["name"], (variable,))
        if kind == "http" and style == "basic":
            fields = {"user": {"env": f"{variable}_USER"}, "password": {"env": f"{variable}_PASSWORD"}}
            made = self._entry(raw, {"name": name, "kind": "basic", **fields})
            return ApiCredential(scheme, made, "auth", "", (f"{variable}_USER", f"{variable}_PASSWORD"))
        if kind == "oauth2":
            client = self._client(scheme, raw, name, variable)
            if client is not None:
                return client
            self._document.note(where, f"its flows need a person; put a token into {variable}")
        elif kind == "openIdConnect":
            self._document.note(where, f"OpenID Connect: get a token yourself, and put it into {variable}")
        elif kind != "http" or style != "bearer":
            self._document.note(where, f"{text_of(style or kind) or 'this type'} cannot be expressed")
            return None
        made = self._entry(raw, {"name": name, "kind": "bearer", "token": {"env": variable}})
        return ApiCredential(scheme, made, "auth", "", (variable,))

    def _client(self, scheme: str, raw: dict[str, JSON], name: str, variable: str) -> ApiCredential | None:
        """OAuth 2.0 with the credentials of a client: the only flow without a person."""
        grants = raw.get("flows")
        grant = grants.get("clientCredentials") if isinstance(grants, dict) else None
        url = grant.get("tokenUrl") if isinstance(grant, dict) else None
        if not isinstance(url, str) or not url.startswith(("https://", "http://")) or contains_template(url):
            return None
        names = (f"{variable}_CLIENT_ID", f"{variable}_CLIENT_SECRET")
        self._document.note(
            f"security {scheme}", "the token is requested without a scope; add `scope` if one is needed"
        )
        fields = {"token_url": url, "client_id": {"env": names[0]}, "client_secret": {"env": names[1]}}
        return ApiCredential(
            scheme, self._entry(raw, {"name": name, "kind": "oauth2_client", **fields}), "auth", "", names
        )

    def _entry(self, raw: dict[str, JSON], entry: dict[str, JSON]) -> dict[str, JSON]:
        desc = text_of(raw.get("description"))
        return {**entry, "desc": desc[:200]} if desc and not contains_template(desc) else entry
