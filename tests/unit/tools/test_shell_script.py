"""Values in shell scripts: the shell sees each one as data, in any position and with any characters (D109)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from noetl.output import JSON
from noetl.playbook.kinds import Shell
from noetl.template.compile import compile_template
from noetl.tools.errors import InvalidInput
from noetl.tools.shell.script import script_with_variables

SHELLS = [path for path in (shutil.which(name) for name in ("sh", "dash", "bash")) if path is not None]
HOSTILE = [
    "plain", "two  words", "", "*", "~", "-n", "$HOME", "$(touch pwned)", "`touch pwned`", "'; touch pwned; '",
    '"; touch pwned; "', "a'b\"c", "\\", "\\n", "$((1+1))", "${HOME}", "}", ")", "# no", "line\nbreak", "a\ntouch pwned\n",
    "EOF\ntouch pwned", "grüße €", "!x", "&& touch pwned", "|", ">pwned",
]  # fmt: skip


def made(source: str, **scope: JSON) -> tuple[str, dict[str, str]]:
    value = compile_template(source, shell=True)(scope)
    return script_with_variables(Shell(text=value["text"], values=value["values"]))


def output(shell: str, folder: Path, source: str, **scope: JSON) -> str:
    script, variables = made(source, **scope)
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", **variables}
    done = subprocess.run([shell, "-c", script], env=env, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (script, done.stderr)
    assert list(folder.iterdir()) == [], "the shell has run a part of the value"
    return done.stdout


POSITIONS = {
    "plain": ("printf '[%s]' {{ x }}", "[{}]"),
    "in a word": ("printf '[%s]' --name={{ x }}.txt", "[--name={}.txt]"),
    "assigned": ("v={{ x }}; printf '[%s]' \"$v\"", "[{}]"),
    "double quotes": ("printf '[%s]' \"a {{ x }} b\"", "[a {} b]"),
    "quotes around it": ("printf '[%s]' \"{{ x }}\" '{{ x }}'", "[{}][{}]"),
    "single quotes": ("printf '[%s]' 'a {{ x }} b'", "[a {} b]"),
    "two in a word": ("printf '[%s]' {{ x }}{{ x }}", "[{}{}]"),
    "substitution": ("v=$(printf '[%s]' {{ x }} 'it'); printf '%s' \"$v\"", "[{}][it]"),
    "substitution in quotes": ("printf '%s' \"$(printf '[%s]' {{ x }} \"{{ x }}\")\"", "[{}][{}]"),
    "backquotes": ("printf '%s' \"`printf '[%s]' {{ x }}`\"", "[{}]"),
    "default": ("printf '[%s]' \"${NOPE:-{{ x }}}\"", "[{}]"),
    "default without quotes": ("printf '[%s]' ${NOPE:-{{ x }}}", "[{}]"),
    "subshell": ("(printf '[%s]' {{ x }})", "[{}]"),
    "case": ("case {{ x }} in '{{ x }}') printf yes;; *) printf no;; esac", "yes"),
    "here-document": ("cat <<EOF\na {{ x }} b\nEOF\nprintf '[%s]' {{ x }}", "a {} b\n[{}]"),
    "here-document with tabs": ("cat <<-EOF\n\ta {{ x }} b\n\tEOF\nprintf it", "a {} b\nit"),
    "after a comment": ("# it's {{ x }} isn't it\nprintf '[%s]' {{ x }}", "[{}]"),
    "in a loop": ("{% for each in [x, x] %}printf '[%s]' {{ each }}; {% endfor %}", "[{}][{}]"),
    "escaped quotes": ('printf \'[%s]\' \\"{{ x }}\\" "\\"{{ x }}\\""', '["{}"]["{}"]'),
    "after $#": ("printf '%s[%s]' $# {{ x }}", "0[{}]"),
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("position", POSITIONS)
def test_a_value_is_data_in_every_position(shell: str, position: str, tmp_path: Path) -> None:
    source, expected = POSITIONS[position]
    for value in HOSTILE:
        if position == "default without quotes" and not value:
            continue  # an empty word is not an argument there
        assert output(shell, tmp_path, source, x=value) == expected.replace("{}", value), repr(value)


@pytest.mark.parametrize("shell", SHELLS)
def test_values_of_other_types_are_written_as_before(shell: str, tmp_path: Path) -> None:
    values: list[JSON] = [3, 2.5, True, None, {"a": "b c"}]
    source = "printf '[%s]' " + " ".join(f"{{{{ x[{place}] }}}}" for place in range(5)) + " '{{ x }}'"
    expected = '[3][2.5][true][null][{"a":"b c"}][[3,2.5,true,null,{"a":"b c"}]]'
    assert output(shell, tmp_path, source, x=values) == expected


@pytest.mark.parametrize("shell", SHELLS)
def test_a_list_outside_of_quotes_is_one_word_for_each_item(shell: str, tmp_path: Path) -> None:
    source = "for f in {{ x }}; do printf '[%s]' \"$f\"; done"
    assert output(shell, tmp_path, source, x=HOSTILE) == "".join(f"[{value}]" for value in HOSTILE)
    assert output(shell, tmp_path, source, x=[]) == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_arithmetic_takes_whole_numbers_only(shell: str, tmp_path: Path) -> None:
    assert output(shell, tmp_path, "printf '%s' $(( 2 * ({{ x }} + 1) ))", x=3) == "8"
    for wrong in ("a[$(touch pwned)]", "1.5", ""):
        with pytest.raises(InvalidInput, match="is not a whole number"):
            made("printf '%s' $(( {{ x }} + 1 ))", x=wrong)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("opening", ["<<'EOF'", '<<"EOF"', "<<\\EOF"])
def test_a_quoted_here_document_holds_any_text_but_its_end(shell: str, opening: str, tmp_path: Path) -> None:
    source = f"cat {opening}\na $HOME {{{{ x }}}} b\nEOF\nprintf '[%s]' {{{{ x }}}}"
    for value in HOSTILE:
        if value != "EOF\ntouch pwned":
            assert output(shell, tmp_path, source, x=value) == f"a $HOME {value} b\n[{value}]"
    for inside, value in (("{{ x }}", "EOF"), ("{{ x }}", "a\nEOF\ntouch pwned"), ("E{{ x }}", "OF\ntouch pwned")):
        with pytest.raises(InvalidInput, match='would end the here-document "EOF"'):
            made(f"cat {opening}\n{inside}\nEOF\n", x=value)


def test_the_text_of_the_script_does_not_depend_on_values() -> None:
    assert made("echo {{ x }}", x="; rm -rf /") == ('echo "${noetl_value_1}"', {"noetl_value_1": "; rm -rf /"})
    assert made("echo {{ x }}", x=1)[0] == made("echo {{ x }}", x="'")[0]


def test_raw_shell_inserts_the_value_as_a_part_of_the_script() -> None:
    assert made("{{ x | raw_shell }} | wc -l > {{ y }}", x="ls -l", y="a b") == (
        'ls -l | wc -l > "${noetl_value_1}"',
        {"noetl_value_1": "a b"},
    )
