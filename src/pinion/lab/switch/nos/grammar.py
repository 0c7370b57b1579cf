"""The grammar of a command line: keywords that may be abbreviated, typed arguments, and EOS's way of saying what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

#: What carries a command out: the receiver (a shell or a configuration editor), then the arguments in order. Returns what to print.
Handler = Callable[..., "str | None"]


class CliError(Exception):
    """An answer that begins with ``%``."""


class InvalidInputError(CliError):
    """A word that no command has at this place."""

    def __init__(self, index: int, word: str) -> None:
        self.index = index
        super().__init__(f"% Invalid input (at token {index}: '{word}')")


@dataclass(frozen=True)
class Word:
    """One word of a line and where it begins."""

    text: str
    start: int


class Argument(Protocol):
    """A typed argument."""

    @property
    def shown(self) -> str:
        """How help shows it."""

    def match(self, line: str, words: Sequence[Word], index: int) -> tuple[object, int] | None:
        """The value at *index* and how many words it takes; None when the words there are not of this type."""


@dataclass
class Node:
    """A place in the grammar: what may follow, and what to do when the line ends here."""

    grammar: Grammar
    keywords: dict[str, Node] = field(default_factory=dict)
    arguments: list[tuple[Argument, Node]] = field(default_factory=list)
    handler: Handler | None = None
    about: str = ""


@dataclass(frozen=True)
class Match:
    """A recognised line: *grammar* says whose command it is."""

    grammar: Grammar
    handler: Handler
    values: tuple[object, ...]


class Grammar:
    """The commands of one mode. *types* are the argument types by name, for patterns like ``vlan <vids>``."""

    def __init__(self, types: dict[str, Argument]) -> None:
        self._types = types
        self.root = Node(self)

    def add(self, pattern: str, handler: Handler, about: str = "") -> None:
        """Add a command. Words in angle brackets are arguments."""
        node = self.root
        for part in pattern.split():
            node = self._argument(node, part[1:-1]) if part.startswith("<") else self._keyword(node, part)
        node.handler, node.about = handler, about

    def command(self, *patterns: str, about: str = "") -> Callable[[Handler], Handler]:
        """Decorator: add a command under each of *patterns*."""

        def register(handler: Handler) -> Handler:
            for pattern in patterns:
                self.add(pattern, handler, about)
            return handler

        return register

    def _keyword(self, node: Node, word: str) -> Node:
        return node.keywords.setdefault(word, Node(self))

    def _argument(self, node: Node, kind: str) -> Node:
        argument = self._types[kind]
        for known, follower in node.arguments:
            if known is argument:
                return follower
        follower = Node(self)
        node.arguments.append((argument, follower))
        return follower


def split(line: str) -> list[Word]:
    """The words of *line*."""
    return [Word(match[0], match.start()) for match in re.finditer(r"\S+", line)]


def recognise(grammars: Sequence[Grammar], line: str) -> Match:
    """The command that *line* is, among all commands of *grammars* (an earlier one wins). `CliError` when it is none."""
    words = split(line)
    return _walk([grammar.root for grammar in grammars], line, words, 0, ())


def _walk(nodes: list[Node], line: str, words: list[Word], index: int, values: tuple[object, ...]) -> Match:
    if index == len(words):
        for node in nodes:
            if node.handler is not None:
                return Match(node.grammar, node.handler, values)
        at = max(index - 1, 0)
        raise CliError(f"% Incomplete command (at token {at}: '{words[at].text}')")
    failures: list[CliError] = []
    for followers, taken, value in _steps(nodes, line, words, index):
        try:
            return _walk(followers, line, words, index + taken, (*values, *value))
        except CliError as error:
            failures.append(error)
    if failures:
        raise max(failures, key=_depth)
    raise InvalidInputError(index, words[index].text)


def _depth(error: CliError) -> int:
    return error.index if isinstance(error, InvalidInputError) else 1000


def _steps(
    nodes: list[Node], line: str, words: list[Word], index: int
) -> Iterator[tuple[list[Node], int, tuple[object, ...]]]:
    word = words[index].text.lower()
    names = {name for node in nodes for name in node.keywords if name.startswith(word)}
    names = {word} if word in names else names
    if len(names) > 1:
        raise CliError(f"% Ambiguous command (at token {index}: '{words[index].text}')")
    for name in names:
        yield [node.keywords[name] for node in nodes if name in node.keywords], 1, ()
    for node in nodes:
        for argument, follower in node.arguments:
            found = argument.match(line, words, index)
            if found is not None:
                yield [follower], found[1], (found[0],)


def help_for(grammars: Sequence[Grammar], line: str) -> list[str]:
    """What may stand where *line* ends: the words that begin as its last one does, or, after a space, all that may follow."""
    words = split(line)
    partial = words.pop().text.lower() if words and not line.endswith(" ") else ""
    nodes = [grammar.root for grammar in grammars]
    index = 0
    while index < len(words):
        try:
            nodes, taken, _ = next(_steps(nodes, line, words, index))
        except StopIteration:
            raise InvalidInputError(index, words[index].text) from None
        index += taken
    found: dict[str, str] = {}
    for node in nodes:
        for name, follower in node.keywords.items():
            if name.startswith(partial):
                found.setdefault(name, follower.about)
        if not partial:
            found.update({argument.shown: "" for argument, _ in node.arguments})
            if node.handler is not None:
                found["<cr>"] = ""
    width = max(map(len, found), default=0)
    return [
        f"  {name:<{width}}  {found[name]}".rstrip() for name in sorted(found, key=lambda name: (name == "<cr>", name))
    ]
