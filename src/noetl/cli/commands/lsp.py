"""`noetl lsp`: the language server for editors."""

from __future__ import annotations

from noetl.cli.execute import OK, Reporter
from noetl.cli.options import app, finish
from noetl.errors import install_hint
from noetl.session.errors import UsageError


@app.command()
def lsp() -> None:
    """Serve an editor over standard input and output, with the Language Server Protocol.

    Editors start it themselves: problems with fixes, completion, documentation, definitions, renaming, layout.

    \b
    Examples:
      noetl lsp
      noetl lsp 2> lsp.log
    """
    finish("auto", serve_editor)


def serve_editor(_: Reporter) -> int:
    try:
        from noetl.lsp.server import serve
    except ImportError as error:
        raise UsageError(f"the language server needs pygls: {install_hint('lsp')}") from error
    from noetl import __version__
    from noetl.cli.checker import installed_kinds

    serve(installed_kinds(), __version__)
    return OK
