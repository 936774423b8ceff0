"""What editors need from a playbook's text, as pure functions over text and positions; `noetl.lsp` serves it."""
