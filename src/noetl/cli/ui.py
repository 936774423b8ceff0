"""`noetl ui`: a server on the user's own database, for this machine only, and the browser before it."""

from __future__ import annotations

import os
import threading
import webbrowser

from noetl.cli.exits import Usage
from noetl.cli.serving import ServeAsked, run_server
from noetl.runtime.settings import LOG, database_url


def run_ui(db: str | None, port: int, *, browser: bool) -> int:
    if database_url(db) is not None:
        raise Usage("a PostgreSQL is looked at through one of its servers: open its address in the browser")

    def show(url: str) -> None:
        page = f"{url}/ui/"
        print(page, flush=True)
        if browser:
            # Some browsers hold whoever starts them until they are closed.
            threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()

    os.environ.setdefault(LOG, "warning")  # a person looks at the page, and not at the log
    asked = ServeAsked(database=db, nats=None, host="127.0.0.1", port=port, auth=False, name="", own=True)
    return run_server(asked, show)
