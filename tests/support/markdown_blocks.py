"""Parses the fenced code blocks of a Markdown text, their annotations, and the places in the code that it names."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import dedent

_FENCE = re.compile(r"( *)```(.*)")
# `kubelet/kubelet.py` names a file; `kubelet/kubelet.py: Kubelet.run` or `...: run` a place in it.
_PLACE = re.compile(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)(?:: ([A-Za-z_.0-9]+))?`")
_COMMAND = re.compile(r"\s*(\$ |sudo |scripts/|pykubelet |kubectl |export |curl |pip |python3? |git )")


@dataclass(frozen=True, slots=True)
class Block:
    """One code block; `options` are the words after the language: `not-run="why"`, `stays`."""

    language: str
    options: Mapping[str, str]
    text: str
    line: int
    """Where its text begins, from 1."""

    @property
    def looks_like_commands(self) -> bool:
        """Whether a reader would take a line of it for a command."""
        return any(_COMMAND.match(line) for line in self.text.splitlines())


@dataclass(frozen=True, slots=True)
class Exchange:
    """A console command and its documented output, in which `...` stands for any text."""

    command: str
    answer: str
    line: int

    def fits(self, said: str) -> bool:
        """Whether real output matches the documented one, regardless of the width of columns."""
        shown = re.sub(r"[ \t]+", " ", self.answer.strip())
        pattern = ".*".join(map(re.escape, shown.split("...")))
        return re.fullmatch(pattern, re.sub(r"[ \t]+", " ", said.strip()), re.DOTALL) is not None


def read_places(text: str) -> list[tuple[str, str]]:
    """The files that a text names, each with the function or class in it, or an empty string."""
    return _PLACE.findall(text)


def read_blocks(text: str) -> tuple[Block, ...]:
    """All code blocks in order; raises ValueError for a block that is not closed."""
    found: list[Block] = []
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        opened = _FENCE.fullmatch(line)
        if opened is None:
            continue
        inside: list[str] = []
        for _, inner in lines:
            if inner.rstrip() == f"{opened[1]}```":
                break
            inside.append(inner)
        else:
            raise ValueError(f"line {number}: a block that nobody closes")
        language, options = _info(opened[2])
        body = dedent("\n".join(inside)) + "\n"
        found.append(Block(language, options, body, number + 1))
    return tuple(found)


def _info(text: str) -> tuple[str, dict[str, str]]:
    language, *words = shlex.split(text) or [""]
    pairs = (word.partition("=") for word in words)
    return language, {name: value for name, _, value in pairs}


def read_console(block: Block) -> tuple[Exchange, ...]:
    """The command after each `$ `, with the output below it."""
    found: list[Exchange] = []
    for number, line in enumerate(block.text.splitlines(), start=block.line):
        if line.startswith("$ "):
            found.append(Exchange(line[2:], "", number))
        elif not found:
            raise ValueError(f"line {number}: an answer before any command")
        else:
            last = found[-1]
            found[-1] = Exchange(last.command, f"{last.answer}{line}\n", last.line)
    return tuple(found)
