"""Converts the code blocks of a document to a shell script that runs them in reading order; does no I/O.

`sh` is run by the shell, `python` as a program or, with `pytest`, by pytest; `yaml` is checked; both are saved under
the name that `file=NAME` gives. `console` commands are run and their output is kept. A command with `stays` keeps
running in the background once it prints `ready`, until a block with `after-ctrl-c`. Blocks with
`not-run="WHY"` are skipped.
"""

import shlex
from collections.abc import Iterator, Sequence

from markdown_blocks import Block, read_console

READY_SECONDS = 60
_BEGIN = f"""set -euo pipefail
stay() {{
  said=$(mktemp)
  bash -euo pipefail -c "$1" >>"$said" 2>&1 &
  stays=$!
  for _ in $(seq {READY_SECONDS * 10}); do
    if grep -q '^ready ' "$said"; then return; fi
    if ! kill -0 "$stays" 2>/dev/null; then break; fi
    sleep 0.1
  done
  echo "it is not ready:"
  cat "$said"
  exit 1
}}
ctrl_c() {{
  kill -TERM "$stays"
  wait "$stays"
}}
"""


def script_of(blocks: Sequence[Block]) -> str:
    """The whole script; before each block it prints the block's line in the document."""
    parts = [_BEGIN]
    for block in blocks:
        steps = [] if "not-run" in block.options else list(_steps(block))
        if steps:
            parts += [f"echo '=== line {block.line}'\n", *steps]
    return "".join(parts)


def answer_file(line: int) -> str:
    """The file that keeps the output of a console command."""
    return f"answer-{line}.txt"


def _steps(block: Block) -> Iterator[str]:
    if "after-ctrl-c" in block.options:
        yield "ctrl_c\n"
    if "stays" in block.options:
        yield f"stay {shlex.quote(block.text.strip())}\n"
    elif block.language == "sh":
        yield block.text
    elif block.language == "python":
        name = block.options.get("file", f"block_{block.line}.py")
        yield _saved(name, block.text)
        yield f"python -m pytest -q -p no:cacheprovider {name}\n" if "pytest" in block.options else f"python {name}\n"
    elif block.language == "yaml":
        name = block.options.get("file", f"block-{block.line}.yaml")
        yield _saved(name, block.text)
        yield f"pykubelet check {name}\n"
    elif block.language == "console":
        for exchange in read_console(block):
            yield f"{{ {exchange.command}\n}} >{answer_file(exchange.line)} 2>&1 || true\n"


def _saved(name: str, text: str) -> str:
    return f"mkdir -p \"$(dirname {name})\"\ncat >{name} <<'END OF THE BLOCK'\n{text}END OF THE BLOCK\n"
