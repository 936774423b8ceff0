"""The language server: the functions of `noetl.editor` over the Language Server Protocol."""
