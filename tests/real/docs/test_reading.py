"""How code blocks are read from a document and turned into a shell script."""

import subprocess
from textwrap import dedent

import pytest

from document_script import script_of
from markdown_blocks import Block, Exchange, read_blocks, read_console

TEXT = """
# Title

```sh not-run="needs a cluster of yours" stays
kubectl get pods
```

* in a list:

  ```python
  if True:
      print(1)
  ```

```
a -> picture
```
"""


def block(language: str, text: str, *, line: int = 1, **options: str) -> Block:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return Block(language, named, dedent(text), line)


def test_blocks_are_read_with_language_options_and_line() -> None:
    """A block indented in a list keeps only its own indentation."""
    assert read_blocks(TEXT) == (
        Block("sh", {"not-run": "needs a cluster of yours", "stays": ""}, "kubectl get pods\n", 5),
        Block("python", {}, "if True:\n    print(1)\n", 11),
        Block("", {}, "a -> picture\n", 16),
    )


def test_unclosed_block_is_an_error() -> None:
    """Otherwise the rest of the document would be taken for code."""
    with pytest.raises(ValueError, match="line 2: a block that nobody closes"):
        read_blocks("text\n```sh\nls\n")


@pytest.mark.parametrize(
    ("text", "is_typed"),
    [
        ("kubectl get pods", True),
        ("  scripts/run", True),
        ("$ ls", True),
        ("agent | nodeapi", False),
        ("pods -> x", False),
    ],
)
def test_commands_are_distinguished_from_diagrams(text: str, is_typed: bool) -> None:
    """The beginning of a line decides."""
    assert block("", text).looks_like_commands is is_typed


def test_console_is_read_as_commands_and_their_answers() -> None:
    """Output extends to the next command; output before the first command is an error."""
    assert read_console(block("console", "$ one\na\nb\n$ two\n", line=7)) == (
        Exchange("one", "a\nb\n", 7),
        Exchange("two", "", 10),
    )
    with pytest.raises(ValueError, match="line 1: an answer before any command"):
        read_console(block("console", "a\n$ one\n"))


@pytest.mark.parametrize(
    ("shown", "said", "fits"),
    [
        ("web  1/1  ...\n", "web   1/1   Running   3s\n", True),
        ("a\n...\nz\n", "a\nb\nc\nz\n", True),
        ("1.5\n", "1x5\n", False),
        ("web 1/1\n", "web 1/1\nmore\n", False),
        ("", "\n", True),
    ],
)
def test_console_output_is_compared_with_wildcards(shown: str, said: str, fits: bool) -> None:
    """`...` matches any text within a line or any lines; the width of columns is ignored."""
    assert Exchange("x", shown, 1).fits(said) is fits


def run(*blocks: Block) -> subprocess.CompletedProcess[str]:
    """Run the script of blocks with stubs for python and pykubelet."""
    script = 'python() { cat "$1"; }; pykubelet() { echo "$@"; }\n' + script_of(blocks)
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, check=False)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))


def test_blocks_share_one_shell_and_the_first_failure_ends_it() -> None:
    """A later block has the exported variables; the output shows the line of the failed block."""
    done = run(
        block("sh", "export A=1\n", line=3), block("sh", "echo $A\n", line=7), block("sh", "false\ntrue\n", line=9)
    )
    assert done.returncode == 1
    assert done.stdout == "=== line 3\n=== line 7\n1\n=== line 9\n"


def test_block_that_is_not_to_be_run_and_a_picture_are_left_out() -> None:
    """Neither adds a step to the script."""
    assert script_of([block("sh", "false\n", not_run="why not"), block("", "picture\n")]) == script_of([])


def test_command_that_stays_runs_beside_the_others_until_ctrl_c() -> None:
    """The next blocks start when it prints `ready`, and it is ended with TERM."""
    stays = "trap 'echo ended >ended; exit 0' TERM; echo ready x; while true; do sleep 0.05; done\n"
    done = run(
        block("sh", stays, stays=""), block("sh", "test ! -e ended\n"), block("sh", "cat ended\n", after_ctrl_c="")
    )
    assert done.stdout.splitlines()[-1] == "ended", done


def test_command_that_ends_before_it_is_ready_is_a_failure() -> None:
    """Its output is shown."""
    done = run(block("sh", "echo no port; exit 3\n", stays=""))
    assert done.returncode == 1
    assert "no port" in done.stdout


def test_program_is_saved_and_run() -> None:
    """A program with a file name can be imported by later ones."""
    done = run(block("python", "a\n", file="one.py"), block("python", "b\n"), block("sh", "cat one.py\n"))
    assert [line for line in done.stdout.splitlines() if not line.startswith("===")] == ["a", "b", "a"]


def test_manifest_is_saved_under_its_name_and_checked() -> None:
    """Its folder is created if needed."""
    done = run(block("yaml", "kind: Pod\n", file="my/pod.yaml"), block("sh", "cat my/pod.yaml\n"))
    assert done.stdout == "=== line 1\ncheck my/pod.yaml\n=== line 1\nkind: Pod\n"
