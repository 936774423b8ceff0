"""The protocol between servers and workers, over any `noetl.ports.Transport`.

- `messages`: the wire format, `chunking`: bodies larger than one message
- `client` and `server`: requests to the owner of an execution, and their answers
- `secret_channel`: credential values, encrypted
- `feed` and `workers`: events of executions, and the registry of live workers
"""
