"""`container`: runs one container to its end, with Docker or Podman, or as a Kubernetes job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from noetl.output import JSON, Failure, Output, failed
from noetl.tool import AddressPolicy, Call, Tool

LOG_BYTES_MAX = 16 * 1024 * 1024  # of what a container writes
FILES_BYTES_MAX = 900 * 1024  # of all `files`; a ConfigMap of Kubernetes has 1 MiB


class Resources(Struct, kw_only=True):
    """What the container may use, in the units of Kubernetes."""

    limits: Annotated[
        dict[str, str | int | float] | None,
        Meta(description="the most that it may use", examples=["{cpu: 500m, memory: 512Mi}"]),
    ] = None
    requests: Annotated[
        dict[str, str | int | float] | None, Meta(description="for Kubernetes: what is reserved for it")
    ] = None


class ContainerInput(Struct, kw_only=True):
    """The image, its command and its surroundings."""

    image: Annotated[
        str, Meta(description="image, with its registry and tag; it is pulled if it is missing", examples=["alpine:3"])
    ]
    engine: Annotated[
        Literal["docker", "kubernetes"],
        Meta(description="`docker`: Docker or Podman of the worker; `kubernetes`: a job in a cluster"),
    ] = "docker"
    entrypoint: Annotated[
        list[str] | None, Meta(description="program, in place of the entry point of the image", examples=["[sh, -c]"])
    ] = None
    arguments: Annotated[
        list[str] | None,
        Meta(description="arguments of the program, in place of the command of the image", examples=['["echo hello"]']),
    ] = None
    env: Annotated[
        dict[str, JSON] | None, Meta(description="environment variables; Kubernetes keeps them in a Secret")
    ] = None
    files: Annotated[
        dict[str, str] | None,
        Meta(description="text files that are added to the container, by absolute path; at most 900 KiB"),
    ] = None
    workdir: Annotated[str | None, Meta(description="working directory; default: that of the image")] = None
    parse: Annotated[Literal["text", "json"], Meta(description="how `output.data` is made from standard output")] = (
        "text"
    )
    resources: Annotated[Resources | None, Meta(description="limits of processor and memory; default: none")] = None
    namespace: Annotated[str, Meta(description="for Kubernetes: the namespace of the job")] = "default"
    service_account: Annotated[
        str | None, Meta(description="for Kubernetes: the service account of the job; default: that of the namespace")
    ] = None
    node_selector: Annotated[
        dict[str, str] | None, Meta(description="for Kubernetes: labels that the node must have")
    ] = None
    backoff_limit: Annotated[
        Annotated[int, Meta(ge=0, le=100)],
        Meta(description="for Kubernetes: how often the job starts another pod after a failure"),
    ] = 0


class ContainerPart(Struct, kw_only=True):
    """The end of the container, `output.container`."""

    exit_code: Annotated[int | None, Meta(description="exit code of the program")] = None
    reason: Annotated[str | None, Meta(description="why it ended, for example `OOMKilled`")] = None
    name: Annotated[str | None, Meta(description="name of the container, or of the job and its objects")] = None
    stderr: Annotated[
        str | None, Meta(description="standard error; Kubernetes returns it together with standard output")
    ] = None


class ContainerEnd(Struct, kw_only=True):
    """A container that has ended, from either engine."""

    name: str
    exit_code: int | None
    reason: str | None
    stdout: bytes
    stderr: bytes = b""


class EngineError(Exception):
    """The engine refused a request, or cannot be reached. The message contains no secret."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class ContainerTool(Tool):
    """Runs a container to its end. `output.data` is its standard output; an exit code other than 0 fails the task.

    With `engine: docker` the worker uses the socket in `DOCKER_HOST`, or the usual one of Docker or Podman. With
    `engine: kubernetes` the job runs in the cluster of the worker, or in the one that `auth` names: a credential
    with the fields `server`, `token` and `ca`. The container, or the job and its objects, are removed afterwards.
    A call that is repeated after a crash of the worker waits for the container that is already there.
    """

    kind = "container"
    failures = ("container",)
    ignores = ("timeout.read",)
    connects = True
    Input = ContainerInput
    defaults = {"timeout": 900}
    output = "container"
    OutputPart = ContainerPart
    example = """\
kind: container
image: alpine:3
entrypoint: [sh, -c]
arguments: ["echo hello"]
"""

    def __init__(self, *, allow_private: bool = True, allow: Sequence[str] = ()) -> None:
        """The fields of AddressPolicy. They hold for the cluster that a credential names."""
        self._policy = AddressPolicy(allow_private, tuple(allow))

    async def run(self, input: ContainerInput, call: Call) -> Output:
        from aiohttp import ClientError

        from noetl_container.docker import DockerEngine
        from noetl_container.kubernetes import KubernetesEngine

        if not input.image or any(ord(character) < 33 for character in input.image):
            return failed("input", "`image` is the name of an image, without spaces")
        wrong = _wrong_files(input.files or {})
        if wrong is not None:
            return failed("input", wrong)
        try:
            if input.engine == "docker":
                return _output(await DockerEngine(call).run(input), input)
            return _output(await KubernetesEngine(call, self._policy).run(input), input)
        except EngineError as error:
            return failed("container", str(error), retryable=error.retryable)
        except (ClientError, OSError) as error:
            return failed("container", f"the engine cannot be reached: {error}"[:1000], retryable=True)
        except (ValueError, KeyError, TypeError) as error:
            return failed("container", f"the engine gave an answer that is not understood: {error}"[:1000])


def _wrong_files(files: dict[str, str]) -> str | None:
    size = 0
    for path, text in files.items():
        parts = path.split("/")
        if parts[0] or len(parts) < 2 or any(part in ("", ".", "..") for part in parts[1:]) or "\0" in path:
            return f'`files`: "{path[:80]}" is not an absolute path of a file'
        size += len(text.encode("utf-8", "replace"))
    return (
        f"`files` is larger than {FILES_BYTES_MAX:,} bytes (limit FILES_BYTES_MAX)" if size > FILES_BYTES_MAX else None
    )


def _output(end: ContainerEnd, input: ContainerInput) -> Output:
    text, errors = end.stdout.decode("utf-8", "replace"), end.stderr.decode("utf-8", "replace")
    part = {"exit_code": end.exit_code, "reason": end.reason, "name": end.name, "stderr": errors}
    own: dict[str, JSON] = {"container": part}
    if end.exit_code != 0:
        last = next((line for line in reversed((errors or text).splitlines()) if line.strip()), "")[:500]
        ended = f"ended with exit code {end.exit_code}" if end.exit_code is not None else "failed"
        why = ", ".join(each for each in (end.reason, last) if each)
        message = f'the container of "{input.image}" {ended}' + (f": {why}" if why else "")
        return Output(status="error", data=text, own=own, error=Failure(kind="container", message=message))
    if input.parse == "text":
        return Output(data=text, own=own)
    try:
        data: JSON = msgspec.json.decode(end.stdout)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        failure = Failure(kind="container", message=f"standard output is not JSON: {error}")
        return Output(status="error", data=text, own=own, error=failure)
    return Output(data=data, own=own)
