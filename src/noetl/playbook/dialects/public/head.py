"""The head of a public playbook: root keys, metadata, executor, the entry step (PUBLIC-DIALECT §1)."""

from __future__ import annotations

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, List, Map, Node, plain, rename
from noetl.playbook.dialects.public.book import Book, child, discard, insert, is_empty, move, new, put, scalar, text_of

_METADATA = ("name", "path", "description", "version")
_ROOT = frozenset(
    {
        "apiVersion",
        "kind",
        "metadata",
        "executor",
        "keychain",
        "workload",
        "workflow",
        "workbook",
        "input",
        "triggers",
        "notify",
    }
)
_UNREAD = {"spec", "context", "tracing", "environment", "trigger", "tags", "labels", "author", "created", "updated"}
_COMMAND_LINE = frozenset({"shell", "http", "playbook", "rhai", "noop", "start", "end"})
_KNOWN = frozenset({"name", "path", "version", "description", "labels"})


def root_metadata(book: Book) -> None:
    """`name`, `path`, `description` and `version` at the root belong under `metadata`."""
    loose = [entry for entry in book.root.entries if entry.name in _METADATA]
    if not loose:
        return
    existing = book.root.entry("metadata")
    if existing is not None and not isinstance(existing.value, Map):
        return
    if existing is None:
        existing = new("metadata", Map(), loose[0].start)
        book.root.entries.insert(book.root.entries.index(loose[0]), existing)
    metadata = existing.value
    assert isinstance(metadata, Map)
    for entry in loose:
        if metadata.get(entry.name) is None:
            move(entry, book.root, metadata)
            book.changed()
        else:
            discard(book.root, entry)
            book.note(
                entry.start, "dropped", f"`{entry.name}` is also under `metadata`, and the one at the root is unused"
            )


def metadata_path(book: Book) -> None:
    """The public engine registers a playbook without `path` under its name, and one without a name under its path."""
    metadata = book.root.map("metadata")
    if metadata is None:
        return
    for missing, other in (("path", "name"), ("name", "path")):
        text = metadata.text(other)
        if metadata.get(missing) is None and text:
            made = text if missing == "path" else text.rstrip("/").rsplit("/", 1)[-1]
            entry = metadata.entry(other)
            assert entry is not None
            insert(metadata, new(missing, scalar(made), entry.start), after=(other,))
            book.note(entry.start, "path-made", f"`{missing}: {made}` has been added from `{other}`")


def metadata_keys(book: Book) -> None:
    """`tags` and other scalars become labels; mappings, which no execution reads, are dropped."""
    metadata = book.root.map("metadata")
    for entry in list(metadata.entries) if metadata is not None else []:
        assert metadata is not None
        if entry.name in _KNOWN:
            continue
        discard(metadata, entry)
        names = []
        if entry.name == "tags" and isinstance(entry.value, List):
            names = [text for each in entry.value.entries if (text := text_of(each.value))]
        made = [(name, plain("true")) for name in names]
        if isinstance(entry.value, Leaf) and not entry.value.null and entry.value.style != "*":
            made = [(entry.name, Leaf(raw=entry.value.raw, text=entry.value.text, style=entry.value.style))]
        labels = child(metadata, "labels", entry.start) if made else None
        if labels is None:
            book.note(entry.start, "dropped", f"`metadata.{entry.name}` has no effect on an execution; it was removed")
            continue
        for name, value in made:
            if labels.get(name) is None:
                labels.entries.append(new(name, value, entry.start))
        book.note(entry.start, "labels", f"`metadata.{entry.name}` is now under `metadata.labels`")


def executor_keys(book: Book) -> None:
    """`executor` keeps the profile; the other keys are hints of the public engine."""
    executor = book.root.map("executor")
    if executor is None:
        return
    book.local = executor.text("profile") == "local"
    for entry in list(executor.entries):
        if (
            entry.name in ("kind", "requires", "description")
            or (entry.name == "profile" and text_of(entry.value) not in ("local", "distributed"))
            or (entry.name == "version" and text_of(entry.value) == "noetl-runtime/1")
        ):
            discard(executor, entry)
            book.note(entry.start, "dropped", f"`executor.{entry.name}` chooses a public runtime; it was removed")
    spec = executor.map("spec")
    for entry in list(spec.entries) if spec is not None else []:
        assert spec is not None
        if entry.name in ("no_next_is_error", "final_step"):
            discard(spec, entry)
            words = "a step without a matching arc ends its token (D39)"
            book.note(entry.start, "dropped", f"`executor.spec.{entry.name}` was removed: {words}")
    policy = spec.map("policy") if spec is not None else None
    defaults = policy.map("defaults") if policy is not None else None
    for key in ("timeout_s", "timeout", "timeout_seconds"):
        timeout = defaults.entry(key) if defaults is not None else None
        if defaults is not None and timeout is not None and defaults.get("timeouts") is None:
            rename(timeout, "timeouts")
            book.changed()
    if spec is not None and not spec.entries:
        spec_entry = executor.entry("spec")
        assert spec_entry is not None
        discard(executor, spec_entry)
    executor_entry = book.root.entry("executor")
    if not executor.entries and executor_entry is not None:
        discard(book.root, executor_entry)


def command_line(book: Book) -> None:
    """Only the public command line runs `shell` beside nothing but `http` and children: it takes the first target."""
    executor = book.root.map("executor")
    if book.local or (executor is not None and executor.text("profile")):
        return
    kinds = {task.kind for _, task in book.tasks()}
    kinds |= {text for step in book.steps for key in ("type", "tool") if (text := step.body.text(key))}
    branched = any(
        step.body.get("case") is not None or each.get("then") is not None
        for step in book.steps
        for each in [Map(), *parts.maps(step.body.get("next"))]
    )
    if "shell" in kinds and kinds <= _COMMAND_LINE and branched:
        book.local = True
        words = "a step continues with the first target that matches"
        message = f"the playbook is read as the public command line reads it: {words}"
        book.note(book.root.start, "read-as", message)


def root_vars(book: Book) -> None:
    """Root `vars` and `ctx` are defaults; they become workload keys."""
    for key in ("vars", "ctx"):
        entry = book.root.entry(key)
        if entry is not None:
            _into_workload(book, entry)


def _into_workload(book: Book, entry: LayoutEntry) -> None:
    key = entry.name
    words = f"root `{key}` are now defaults in `workload`"
    if key == "vars":
        words = "the public engine ignored root `vars`; they are now defaults in `workload`"
    if is_empty(entry.value):
        discard(book.root, entry)
        book.note(entry.start, "dropped", f"empty root `{key}` have no effect")
        return
    workload = book.root.entry("workload")
    if not isinstance(entry.value, Map) or (
        workload is not None and not (isinstance(workload.value, Map) or parts.is_null(workload.value))
    ):
        book.refuse(entry.start, f"root `{key}` cannot be merged into `workload`", "move its keys to `workload`")
        return
    if workload is None:
        rename(entry, "workload")
        book.note(entry.start, "root-vars", words)
        return
    if parts.is_null(workload.value):
        put(workload, Map())
    assert isinstance(workload.value, Map)
    for each in list(entry.value.entries):
        if workload.value.get(each.name) is None:
            move(each, entry.value, workload.value)
    discard(book.root, entry)
    book.note(entry.start, "root-vars", words)


def root_leftovers(book: Book) -> None:
    """Root keys that no interpreter reads are dropped; credentials at the root are refused."""
    for entry in list(book.root.entries):
        if entry.name in _ROOT or entry.name in _METADATA or entry.name == "vars":
            continue
        if entry.name == "credentials" and _only_names(entry.value):
            discard(book.root, entry)
            message = "no engine reads `credentials` at the root; the tasks name theirs, and they are declared there"
            book.note(entry.start, "dropped", message)
        elif entry.name in ("auth", "credentials"):
            message = f'"{entry.name}" at the root is not read by any task'
            book.refuse(
                entry.start, message, "declare the credential under `keychain`, and name it in `auth` of the task"
            )
        elif entry.name in _UNREAD or entry.name.startswith("x-"):
            discard(book.root, entry)
            book.note(entry.start, "dropped", f"no engine reads `{entry.name}` at the root; it was removed")


def _only_names(node: Node) -> bool:
    """Is it a list of names and kinds, without a value of a credential?"""
    if not isinstance(node, List):
        return False
    keys = {each.name for entry in node.entries if isinstance(entry.value, Map) for each in entry.value.entries}
    return keys <= {"name", "type", "kind", "description", "desc", "key"}


def entry_step(book: Book) -> None:
    """Without a step `start`, the first step of the list begins."""
    steps = [step for step in book.steps if step.name]
    names = {step.name for step in steps}
    if not steps or "start" in names or parts.entry_step(book.root) in names:
        return
    first = steps[0]
    executor = book.root.entry("executor")
    if executor is not None and not isinstance(executor.value, Map) and not parts.is_null(executor.value):
        return
    if executor is None:
        executor = new("executor", Map(), first.body.start)
        insert(book.root, executor, before=("workload", "keychain", "workflow", "workbook"))
    if parts.is_null(executor.value):
        put(executor, Map())
    assert isinstance(executor.value, Map)
    spec = child(executor.value, "spec", first.body.start)
    if spec is None:
        return
    spec.entries = [each for each in spec.entries if each.name != "entry_step"]
    spec.entries.append(new("entry_step", scalar(first.name), first.body.start))
    message = f'there is no step "start"; "{first.name}", the first one, is the entry step'
    book.note(first.body.start, "entry-made", message)
