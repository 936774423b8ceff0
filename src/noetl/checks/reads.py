"""What templates read (level L3): does it exist there, and can a comparison hold?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from noetl.checks.pipelines import END, runs_before, successors
from noetl.errors import Severity
from noetl.net.graph import reachable
from noetl.net.program import SAVED, Program, TemplateUse
from noetl.net.scopes import EVENT_FIELDS, OLD_NAMES, PLACES, SEES_TASKS, SUBJECT, all_writes, readable, task_writes
from noetl.output import ERROR_FIELDS, ERROR_KINDS, JSON, OUTPUT_FIELDS
from noetl.playbook.kinds import Kind, Kinds
from noetl.playbook.language import SCOPES
from noetl.playbook.model import COMPENSATE, DECISIONS, PIPELINE_END, Block, InputField, Pipeline, Step, Task
from noetl.playbook.source import Path
from noetl.playbook.validation import NAME, ProblemReport
from noetl.template.compile import Read

_MISSING = {
    "undeclared-workload": "workload declares no default for",
    "unknown-input": "input does not declare",
    "unset-ctx": "nothing sets",
    "unset-step": "nothing in this step sets",
    "unset-iter": "nothing in this loop sets",
    "unbound-input": "input does not declare",
}


class ReadChecker:
    """Checks the templates one by one; what they share is computed once."""

    def __init__(self, program: Program, kinds: Kinds, report: ProblemReport) -> None:
        self.program = program
        self.report = report
        self.kinds = kinds
        self.own: dict[Path, _Owner] = {}
        self.parts: dict[str, Callable[[TemplateUse, Read], None]] = {
            "workload": self._workload,
            "ctx": self._ctx,
            "step": self._step,
            "iter": self._iter,
            "input": self._input,
            "output": self._output,
            "keychain": self._keychain,
            "event": self._event,
        }

    def check(self, use: TemplateUse) -> None:
        seen = readable(use.place, use.owner)
        for read in dict.fromkeys(use.template.reads):
            root = str(read.path[0])
            if root in SUBJECT and seen >= SUBJECT.keys():
                self._subject(use, read)
            elif root in SCOPES and not (root == SAVED and self._is_task(root, use)):
                if root in seen and not self._special(root, use):
                    if root == "output" and self._sees_previous(use):
                        self._output_before(use, read)
                    if root in self.parts and len(read.path) > 1:
                        self.parts[root](use, read)
                else:
                    self._not_here(root, use, read)
            elif self._is_task(root, use):
                self._task(root, use, read)
            else:
                self._unknown(root, use, read)

    def _is_task(self, root: str, use: TemplateUse) -> bool:
        return use.task is not None and use.place in SEES_TASKS and root in self._owner(use).tasks

    def _special(self, root: str, use: TemplateUse) -> bool:
        """Is the scope readable by the table, but not here?"""
        if root == "iter":
            owner = self._owner(use)
            around = bool(use.loop) or owner.inside_loop  # a loop's items are evaluated before its iterations
            return not (around if use.place == "loop" else owner.has_iter)
        if root == "keychain" and use.task is not None and use.task.kind in ("playbook", "workbook"):
            return True  # the input of a child or a block is recorded in the log
        if root == "keychain" and use.task is not None and "stored" in use.path[len(use.task.at) :]:
            return True  # the log records the Ref to the rows, with its conditions
        if root == "event" and use.place == "step input":
            return not (isinstance(use.owner, Step) and use.owner.join == "all")
        return False

    def _not_here(self, root: str, use: TemplateUse, read: Read) -> None:
        where = PLACES[use.place].replace("`", "")
        word = ".".join(map(str, read.path))
        if root == "keychain":
            message = f'"{word}" would be written to the log with {where}; only fields of a task may read it'
            self.report.add("secret-in-log", use.path, message, word=root)
        elif root == "output" and use.place == "skip rule":
            message = "a rule with do: skip is evaluated before the tool runs: there is no output yet"
            self.report.add("output-in-skip", use.path, message, word=root)
        elif root == "iter" and use.place == "step limit":
            message = f'"{word}": a limit of a step counts its runs with all their iterations; put it on the task'
            self.report.add("not-in-scope", use.path, message, word=root)
        elif root == "iter":
            self.report.add("not-in-scope", use.path, f'"{word}": {where} is not in a loop', word=root)
        else:
            names = ", ".join(sorted(readable(use.place, use.owner)))
            message = f'"{root}" does not exist in {where}, which can read {names}'
            self.report.add("not-in-scope", use.path, message, word=root)

    def _unknown(self, root: str, use: TemplateUse, read: Read) -> None:
        if root in OLD_NAMES:
            new = OLD_NAMES[root]
            message = f'"{root}" belongs to an older dialect: use {new}; `noetl migrate` rewrites it'
            self.report.add("old-dialect", use.path, message, word=root, fix=new)
            return
        owner = self._owner(use)
        word = ".".join(map(str, read.path))
        fix = None
        if root in self.program.playbook.workload or (self.program.inputs and root in self.program.inputs.fields):
            fix = f"workload.{word}"
        elif root in owner.iterators:
            fix = f"iter.{word}"
        elif (root,) in self._ctx_paths.prefixes:
            fix = f"ctx.{word}"
        elif root in owner.tasks:
            message = f'only its own pipeline can read task "{root}" by name; use output or set'
            self.report.add("not-in-scope", use.path, message, word=root)
            return
        elif self._is_of_other_step(use, read):
            return
        elif root == "env":
            message = (
                "templates cannot read environment variables: pass a value with workload, and a secret with keychain"
            )
            self.report.add("unknown-name", use.path, message, word=root)
            return
        else:
            fix = _renamed(read.path, owner.iterators) or self.report.similar(root, [*SCOPES, *owner.tasks])
        hint = f'; did you mean "{fix}"?' if fix else ""
        self.report.add("unknown-name", use.path, f'no scope has the name "{root}"{hint}', word=root, fix=fix)

    def _is_of_other_step(self, use: TemplateUse, read: Read) -> bool:
        """Report a read of the output of another step, or of a task of it: `start.data.a`, `steps.start.data.a`."""
        path = read.path[1:] if read.path[0] == "steps" else read.path
        name = str(path[0]) if path else ""
        steps = self.program.playbook.steps
        owner = next((f'step "{name}"' for each in steps if each.name == name), None)
        if owner is None:
            called = (each for each in steps if any(task.name == name for task in each.tasks))
            owner = next((f'task "{name}" of step "{each.name}"' for each in called), None)
        if owner is None:
            return False
        value = _own_output(path[1:])
        last = str(path[-1])
        target = f"ctx.{last if len(path) > 1 and last not in OUTPUT_FIELDS and NAME.match(last) else name}"
        fix = f'set: {{{target}: "{{{{ {value} }}}}"}}'
        message = f"no scope has the output of {owner} here: write {fix} there, and read {target} here"
        self.report.add("unknown-name", use.path, message, word=".".join(map(str, read.path)), fix=fix)
        return True

    def _task(self, name: str, use: TemplateUse, read: Read) -> None:
        assert use.task is not None
        own = use.task.name == name and use.place == "task result"  # its own output, by name
        if not own and not self._owner(use).runs_before(name, use.task.name):
            message = f'"{name}" never runs before "{use.task.name}"'
            self.report.add("task-not-run", use.path, message, word=name)
        elif len(read.path) > 1:
            self._output_field(name, self._owner(use).tasks[name], use, read)

    def _declared(self, declared: Sequence[InputField], use: TemplateUse, read: Read) -> None:
        names = [field.name for field in declared]
        if read.path[1] not in names:
            severity: Severity | None = "warning" if read.optional else None
            self._missing("unknown-input", use, read, names, severity=severity)

    def _workload(self, use: TemplateUse, read: Read) -> None:
        if (declared := self.program.playbook.inputs) is not None:
            self._declared(declared, use, read)
            return
        value: JSON = self.program.playbook.workload
        for length, part in enumerate(read.path[1:], 2):
            if not isinstance(value, dict):
                return
            if part not in value:
                if not read.optional:
                    self._missing("undeclared-workload", use, read, value, length)
                return
            value = value[part]

    @cached_property
    def _ctx_paths(self) -> _Paths:
        return _Paths("ctx", (writes for writes, _ in all_writes(self.program.playbook)))

    def _ctx(self, use: TemplateUse, read: Read) -> None:
        self._written("unset-ctx", self._ctx_paths, use, read)

    def _step(self, use: TemplateUse, read: Read) -> None:
        self._written("unset-step", self._owner(use).step_paths, use, read)

    def _iter(self, use: TemplateUse, read: Read) -> None:
        owner = self._owner(use)
        if read.path[1] == "parent":
            if not owner.has_parent:
                message = "there is no outer loop: iter.parent is undefined here"
                self.report.add("not-in-scope", use.path, message, word="iter.parent")
            return
        if use.place == "loop":
            known = owner.iter_around(use.loop or 0)
        elif owner.loops:
            known = owner.iter_paths
        else:
            return  # a block without a loop sees the iter of its caller (D85)
        self._written("unset-iter", known, use, read)

    def _input(self, use: TemplateUse, read: Read) -> None:
        bound = set(self._owner(use).input_keys)
        if use.place in ("task result", "skip rule") and use.task is not None:
            bound |= set(use.task.input)
            if read.path[1] in self._secrets.get(use.task.at, ()):
                message = f'input does not contain "{read.path[1]}", which reads keychain: it would be in the log'
                self.report.add("secret-in-log", use.path, message, word="input")
                return
        if read.path[1] not in bound and not read.optional:
            self._missing("unbound-input", use, read, bound)

    @cached_property
    def _secrets(self) -> dict[Path, set[str | int]]:
        """Input fields that read keychain are missing from `input` in rules and `set` (D20)."""
        found: dict[Path, set[str | int]] = {}
        for use in self.program.templates:
            if use.place == "task" and use.task and any(read.path[0] == "keychain" for read in use.template.reads):
                inside = use.path[len(use.task.at) :]
                found.setdefault(use.task.at, set()).add(inside[1] if inside[0] == "input" else inside[0])
        return found

    def _output_before(self, use: TemplateUse, read: Read) -> None:
        """A task's fields see the output of the previous task; the first task has none."""
        assert use.task is not None
        owner, name = self._owner(use), use.task.name
        if (
            read.optional
            or owner.undoes is not None
            or any(owner.runs_before(each, name) for each in owner.tasks.keys() - owner.decisions)
        ):
            return  # A compensation begins with the output of the run that it undoes (D116).
        word = ".".join(map(str, read.path))
        message = (
            f'no task of the step runs before "{name}", so there is no output yet;'
            " to use the output of an earlier step, set it in ctx there and read ctx here"
        )
        fix = f'set: {{ctx.x: "{{{{ {word} }}}}"}}'
        self.report.add("no-output-yet", use.path, message, word=word, fix=fix)

    @staticmethod
    def _sees_previous(use: TemplateUse) -> bool:
        return use.place == "task" or (use.task is not None and use.task.form in DECISIONS)

    def _is_passed_on(self, use: TemplateUse, part: str | int) -> bool:
        """A choose or loop passes on the data of the task before it, and no other part of its output."""
        owner = self._owner(use)
        known = ("data",) if use.task is not None else ("data", "status", "error")
        if not owner.decisions or part in known or (use.task is not None and not self._sees_previous(use)):
            return True
        if use.task is None:
            decision = owner.decided_before.get(PIPELINE_END)
        elif use.task.form in DECISIONS:
            decision = use.task.name
        else:
            decision = owner.decided_before.get(use.task.name)
        if decision is None:
            return True
        before = next((task.name for task in owner.before(use.task) if task.form == "task"), None)
        by_name = use.task is not None and before is not None and before.isidentifier()
        message = f'"{decision}" passes on only output.data of the task before it'
        message += f"; read {before}.{part}" if by_name else f"; keep output.{part} with set in that task"
        fix = f"{before}.{part}" if by_name else f'set: {{step.x: "{{{{ output.{part} }}}}"}}'
        self.report.add("not-in-scope", use.path, message, word=f"output.{part}", fix=fix)
        return False

    def _output(self, use: TemplateUse, read: Read) -> None:
        part = read.path[1]
        if not self._is_passed_on(use, part):
            return
        if part == "result":
            message = '"output.result" belongs to an older dialect: use output.data'
            self.report.add("old-dialect", use.path, message, word="output.result", fix="output.data")
            return
        undone = self._owner(use).undoes
        tasks = use.owner.tasks if undone is None else (*use.owner.tasks, *undone.tasks)
        self._output_field("output", tasks, use, read)

    def _output_field(self, root: str, tasks: Sequence[Task], use: TemplateUse, read: Read) -> None:
        """A field of the output of one of the tasks; `root` is "output" or the name of a task."""
        part = read.path[1]
        if part in OUTPUT_FIELDS and part != "error":
            return
        kinds = [self.kinds.get(task.kind) for task in tasks]
        if part == "failed" and _has_failed(use, tasks):
            return
        known = (*OUTPUT_FIELDS, *{kind.output for kind in kinds if kind and kind.output})
        if part not in known:
            if None in kinds or (read.optional and any(part == kind.output for kind in self.kinds.values())):
                return
            better = None if any(part == kind.output for kind in self.kinds.values()) else f"{root}.data.{part}"
            if part in _HTTP_STATUS and "http" in known:
                known, better = (), f"{root}.http.status"
            lenient = read.optional and root != "output"
            self._unknown_part(root, part, known, use, lenient=lenient, better=better)
        elif part == "error":
            self._error(use, read, lenient=read.optional and root != "output")
        elif len(read.path) > 2:
            fields = self._fields_of(part, kinds)
            if fields is not None and read.path[2] not in fields:
                self._unknown_part(f"{root}.{part}", read.path[2], fields, use, lenient=read.optional)

    def _error(self, use: TemplateUse, read: Read, *, lenient: bool) -> None:
        """A failure has fixed fields; `cause` is a failure, too."""
        for place in range(2, len(read.path)):
            if read.path[place] not in ERROR_FIELDS:
                scope = ".".join(map(str, read.path[:place]))
                self._unknown_part(scope, read.path[place], ERROR_FIELDS, use, lenient=lenient)
            if read.path[place] != "cause":
                return

    @staticmethod
    def _fields_of(part: str | int, kinds: Iterable[Kind | None]) -> tuple[str, ...] | None:
        """The fields of a tool's own part of the output; None: some tool does not describe them."""
        found: list[str] = []
        for kind in kinds:
            if kind is not None and kind.output == part:
                if kind.output_fields is None:
                    return None
                found += kind.output_fields.keys
        return tuple(dict.fromkeys(found))

    def _subject(self, use: TemplateUse, read: Read) -> None:
        path, known = read.path, SUBJECT[str(read.path[0])]
        if len(path) > 1 and path[1] not in known:
            self._unknown_part(str(path[0]), path[1], known, use)
        elif path[:2] == ("execution", "error"):
            self._error(use, read, lenient=True)
        elif path[:2] == ("execution", "output") and len(path) > 2 and path[2] not in OUTPUT_FIELDS:
            self._unknown_part("execution.output", path[2], OUTPUT_FIELDS, use, lenient=read.optional)

    def _event(self, use: TemplateUse, read: Read) -> None:
        if read.path[1] not in EVENT_FIELDS:
            self._unknown_part("event", read.path[1], EVENT_FIELDS, use)
        elif read.path[1] == "error":
            self._error(use, read, lenient=True)

    def _keychain(self, use: TemplateUse, read: Read) -> None:
        if read.path[1] not in self._keychain_names:
            near = self.report.similar(str(read.path[1]), self._keychain_names)
            hint = f'; did you mean "{near}"?' if near else ""
            word = f"keychain.{read.path[1]}"
            message = f'keychain has no entry "{read.path[1]}"{hint}'
            self.report.add("unknown-credential", use.path, message, word=word, fix=near)

    def _unknown_part(
        self,
        scope: str,
        part: str | int,
        known: Iterable[str],
        use: TemplateUse,
        *,
        lenient: bool = False,
        better: str | None = None,
    ) -> None:
        """`lenient`: the template has a default for it, so the playbook runs. `better`: the fix if none is similar."""
        near = self.report.similar(str(part), known)
        fix = f"{scope}.{near}" if near else better
        hint = f'did you mean "{fix}"?' if fix else f"it has {', '.join(sorted(known))}"
        message = f'{scope} has no part "{part}"; {hint}'
        severity: Severity | None = "warning" if lenient else None
        self.report.add("unknown-field", use.path, message, word=f"{scope}.{part}", fix=fix, severity=severity)

    def _written(self, code: str, known: _Paths, use: TemplateUse, read: Read) -> None:
        if not read.optional and not known.touch(read.path[1:]):
            self._missing(code, use, read, known.names)

    def _missing(
        self,
        code: str,
        use: TemplateUse,
        read: Read,
        known: Iterable[str],
        length: int = 2,
        *,
        severity: Severity | None = None,
    ) -> None:
        """The path does not exist from its `length`-th part on; `known` are the parts that exist."""
        name = ".".join(map(str, read.path[:length]))
        near = self.report.similar(str(read.path[length - 1]), known)
        fix = ".".join([*map(str, read.path[: length - 1]), near]) if near else None
        hint = f'; did you mean "{fix}"?' if fix else ""
        message = f'{_MISSING[code]} "{name}"{hint}'
        self.report.add(code, use.path, message, word=name, fix=fix, severity=severity)

    def _owner(self, use: TemplateUse) -> _Owner:
        at = use.owner.at
        if at not in self.own:
            self.own[at] = _Owner(use.owner, self._calls, self.program)
        return self.own[at]

    @cached_property
    def _keychain_names(self) -> set[str]:
        return {entry.name for entry in self.program.keychain}

    @cached_property
    def _calls(self) -> _Calls:
        return _Calls(self.program.playbook.pipelines)


def _has_failed(use: TemplateUse, tasks: Sequence[Task]) -> bool:
    """Is it the output of a loop, or of a block, which may have one? It lists the failed iterations."""
    if use.task is None:
        return bool(use.owner.loops)
    return any(task.kind == "workbook" for task in tasks)


_FOREIGN = {"secret": "keychain", "secrets": "keychain", "response": "output", "vars": "ctx", "variables": "ctx"}


def _renamed(path: Path, iterators: Iterable[str]) -> str | None:
    """The name in this language of a scope that other languages have; None: none is known."""
    for iterator in sorted(iterators):
        if path[0] == "item":
            return ".".join(("iter", iterator, *map(str, path[1:])))
        if path[0] == "loop":
            return "iter.index"
    scope = _FOREIGN.get(str(path[0]))
    return None if scope is None else ".".join((scope, *map(str, path[1:])))


def _own_output(path: Path) -> str:
    """How a step reads what others call `start.data.a`, `start.result.a` or `start.a`."""
    inside = list(path)
    while inside and inside[0] in ("output", "result", "results", "outcome"):
        del inside[0]
    if not inside or inside[0] not in OUTPUT_FIELDS:
        inside.insert(0, "data")
    return "output" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in inside)


class _Paths:
    """The paths that are written in a scope: ("user", "name") for ctx.user.name."""

    def __init__(self, scope: str, writes: Iterable[dict[str, JSON]], names: Iterable[str] = ()) -> None:
        prefix = scope + "."
        found = {tuple(target.split(".")[1:]) for each in writes for target in each if target.startswith(prefix)}
        self.targets: set[Path] = {*found, *((name,) for name in names)}
        self.prefixes: set[Path] = {each[:length] for each in self.targets for length in range(1, len(each) + 1)}

    @cached_property
    def names(self) -> set[str]:
        """The first parts of the paths."""
        return {str(target[0]) for target in self.targets}

    def touch(self, path: Path) -> bool:
        """Is the path, a part of it, or something below it written?"""
        return path in self.prefixes or any(path[:length] in self.targets for length in range(1, len(path)))


class _Calls:
    """The calls of blocks."""

    def __init__(self, owners: tuple[Pipeline, ...]) -> None:
        self.inputs: dict[str, set[str]] = {}  # block → the keys that its callers bind
        follows: dict[str, set[str]] = {}
        looped: set[str] = set()
        self.iterators = {loop.iterator for owner in owners for loop in owner.loops}
        for owner in owners:
            for task in owner.tasks:
                block = task.fields.get("block")
                if task.kind == "workbook" and isinstance(block, str):
                    self.inputs.setdefault(block, set()).update(task.input)
                    if owner.loops:
                        looped.add(block)
                    if isinstance(owner, Block):
                        follows.setdefault(owner.name, set()).add(block)
        self.inside_loop = reachable(looped, follows)


class _Owner:
    """What the checks need to know about one step or block."""

    def __init__(self, owner: Pipeline, calls: _Calls, program: Program) -> None:
        self.loops = owner.loops
        self.tasks: dict[str, list[Task]] = {}  # by name
        for task in owner.tasks:
            self.tasks.setdefault(task.name, []).append(task)
        self.decisions = {task.name for task in owner.tasks if task.form != "task"}
        self.iterators = {loop.iterator for loop in owner.loops}
        self.inside_loop = isinstance(owner, Block) and owner.name in calls.inside_loop
        self.has_iter = bool(owner.loops) or self.inside_loop
        self.has_parent = len(owner.loops) > 1 or self.inside_loop
        self.undoes = _undone_step(owner, program)
        self.input_keys = set(owner.input) | (
            calls.inputs.get(owner.name, set()) if isinstance(owner, Block) else set()
        )
        if self.undoes is not None:
            self.input_keys |= set(self.undoes.input)
        self._owner = owner
        self._calls = calls
        pipeline = program.pipeline(owner.name, block=isinstance(owner, Block))
        self._tasks = pipeline.source_tasks

    @cached_property
    def iter_paths(self) -> _Paths:
        own = (self.loops[-1].iterator, "index") if self.loops else ()
        return _Paths("iter", (writes for writes, _ in task_writes(self._owner)), own)

    @cached_property
    def step_paths(self) -> _Paths:
        owners = [self._owner] if self.undoes is None else [self._owner, self.undoes]
        return _Paths("step", [each for owner in owners for each in (owner.set, *_written_by(owner))])

    @cached_property
    def runs_before(self) -> Callable[[str, str], bool]:
        return runs_before(self._tasks)

    @cached_property
    def decided_before(self) -> dict[str, str]:
        """The tasks that may follow a choose or loop directly, with its name."""
        through = successors(self._tasks)
        return {to if to != END else PIPELINE_END: name for name in self.decisions for to in through[name].follows}

    def before(self, task: Task | None) -> Iterator[Task]:
        """The tasks above it in the text, the nearest first; None: all of them."""
        tasks = self._owner.tasks
        place = next((index for index, each in enumerate(tasks) if each is task), len(tasks))
        return reversed(tasks[:place])

    def iter_around(self, loop: int) -> _Paths:
        """`iter` in the `in` of the loop with this number: the iteration around it (D85)."""
        names = {self.loops[loop - 1].iterator} if loop > 0 else self._calls.iterators
        return _Paths("iter", (), {*names, "index"})


def _written_by(owner: Pipeline) -> Iterator[dict[str, JSON]]:
    return (writes for writes, _ in task_writes(owner))


def _undone_step(owner: Pipeline, program: Program) -> Step | None:
    """Of a compensation: the step whose runs it undoes."""
    step, slash, last = owner.name.rpartition("/")
    return program.steps[step].source if slash and last == COMPENSATE and step in program.steps else None


_STATUS = ("ok", "error")
_HTTP_STATUS = frozenset({"status_code", "http_status", "statusCode"})
_RENAMED = {"success": "ok", "failed": "error", "failure": "error", "done": "ok"}


def check_comparisons(use: TemplateUse, kinds: Kinds, report: ProblemReport) -> None:
    for path, values, _ in use.template.compared:
        if path[-2:] == ("error", "kind") and path[0] in ("output", "event"):
            own = {name for task in use.owner.tasks if task.kind in kinds for name in kinds[task.kind].failures or ()}
            _check_error_kinds(path, values, use, {*ERROR_KINDS, *kinds, *own}, report)
        possible = _possible(path, use)
        if possible is None or any(value in possible for value in values):
            continue
        word, wrong = ".".join(map(str, path)), values[0] if values else "nothing"
        if path == ("output", "status") and isinstance(wrong, int) and _calls_http(use):
            message = f"output.status is ok or error, never {wrong}; the status of the response is output.http.status"
            report.add("never-equal", use.path, message, word=word, fix="output.http.status")
            continue
        fix = _RENAMED.get(str(wrong)) if possible == _STATUS else report.similar(str(wrong), possible)
        message = f'{word} is never "{wrong}" here: it is {" or ".join(possible)}'
        report.add("never-equal", use.path, message, word=word, fix=f"'{fix}'" if fix else None)


def _calls_http(use: TemplateUse) -> bool:
    return any(task.kind == "http" for task in use.owner.tasks)


_REASONS = frozenset({
    "not-found", "no-responders", "not-supported", "bad-path", "changed", "exists", "denied", "refused", "unavailable",
})  # fmt: skip


def _check_error_kinds(
    path: Path, values: Sequence[JSON], use: TemplateUse, known: set[str], report: ProblemReport
) -> None:
    """A tool of another package may have kinds of its own, so only a kind that resembles a known one is reported."""
    word = ".".join(map(str, path))
    coded = next((task.kind for task in use.owner.tasks if task.kind in ("object", "nats")), None)
    for wrong in values:
        if coded is not None and wrong in _REASONS:
            message = f'no error has the kind "{wrong}": the kind is {coded}, and the reason is output.{coded}.code'
            report.add("never-equal", use.path, message, word=word, fix=f"output.{coded}.code")
        elif isinstance(wrong, str) and wrong not in known and (near := report.similar(wrong, known)):
            message = f'no error has the kind "{wrong}"; did you mean "{near}"?'
            report.add("never-equal", use.path, message, word=word, fix=f"'{near}'")


def _possible(path: Path, use: TemplateUse) -> tuple[str, ...] | None:
    """All possible values of a path; None: any value."""
    if path in (("output", "status"), ("event", "status")):
        return _STATUS
    if path != ("event", "name"):
        return None
    if use.place in ("arc", "step set"):
        return ("loop.done" if use.owner.loops else "step.done", "step.failed")
    return ("step.done", "step.failed", "loop.done")
