"""Text to tokens and back, exactly as llama.cpp does it for vocabularies of the kind ``llama`` (SentencePiece, byte fallback).

Spaces are written as U+2581. A text starts as single characters; again and again the two neighbours whose joined text is the piece with
the highest score become that piece (the leftmost on a tie). What is no piece at the end is spelt in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

#: What a space is written as.
SPACE = "\u2581"
#: The first tokens of every vocabulary of ours, then the 256 bytes, then the pieces.
UNKNOWN, BEGIN, END = 0, 1, 2
SPECIAL = ("<unk>", "<s>", "</s>")
FIRST_BYTE = len(SPECIAL)
FIRST_PIECE = FIRST_BYTE + 256


@dataclass(frozen=True)
class Tokenizer:
    """A vocabulary: *pieces* in the order of their tokens, the earlier the sooner it is made."""

    pieces: tuple[str, ...]

    def __post_init__(self) -> None:
        """Look pieces up by their text once."""
        object.__setattr__(self, "_ranks", {piece: rank for rank, piece in enumerate(self.pieces)})

    @property
    def ranks(self) -> dict[str, int]:
        """The rank of each piece: 0 is made first."""
        ranks: dict[str, int] = self.__dict__["_ranks"]
        return ranks

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return FIRST_PIECE + len(self.pieces)

    def encode(self, text: str) -> list[int]:
        """The tokens of *text*, without one for its beginning."""
        tokens: list[int] = []
        for symbol in merged(list(text.replace(" ", SPACE)), self.ranks):
            rank = self.ranks.get(symbol)
            if rank is not None:
                tokens.append(FIRST_PIECE + rank)
            else:
                tokens += (FIRST_BYTE + byte for byte in symbol.encode())
        return tokens

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of *tokens*; special ones have none, bytes that are no UTF-8 become U+FFFD."""
        return b"".join(self.spelling(token) for token in tokens).decode(errors="replace")

    def spelling(self, token: int) -> bytes:
        """The bytes that *token* stands for."""
        if token >= FIRST_PIECE:
            return self.pieces[token - FIRST_PIECE].replace(SPACE, " ").encode()
        return bytes([token - FIRST_BYTE]) if token >= FIRST_BYTE else b""

    def name(self, token: int) -> str:
        """*token* as a vocabulary file calls it."""
        if token < FIRST_BYTE:
            return SPECIAL[token]
        return f"<0x{token - FIRST_BYTE:02X}>" if token < FIRST_PIECE else self.pieces[token - FIRST_PIECE]


def merged(symbols: list[str], ranks: dict[str, int]) -> list[str]:
    """*symbols* after all merges that *ranks* knows. A line at a time would do the same: no piece has a line's end in it."""
    lines: list[str] = []
    line: list[str] = []
    for symbol in symbols:
        line.append(symbol)
        if symbol == "\n":
            lines += _merged_line(line, ranks)
            line = []
    return lines + _merged_line(line, ranks)


def _merged_line(symbols: list[str], ranks: dict[str, int]) -> list[str]:
    worst = len(ranks)
    while len(symbols) > 1:
        found = [ranks.get(left + right, worst) for left, right in pairwise(symbols)]
        best = min(found)
        if best == worst:
            return symbols
        at = found.index(best)
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
    return symbols


def learn(text: str, count: int) -> Tokenizer:
    """A vocabulary of *count* pieces from *text*: its letters that occur often, then pairs, the most frequent first.

    Pieces stay within a word with the space before it. Ties go to the piece that sorts first, so the result depends on *text* alone.
    """
    letters = _counts(text.replace(" ", SPACE))
    letters.pop("\n", None)
    frequent = sorted(
        (letter for letter, seen in letters.items() if seen >= 8), key=lambda letter: (-letters[letter], letter)
    )
    words = _counts(word for line in text.split("\n") for word in _words(line.replace(" ", SPACE)))
    spelt = {word: list(word) for word in words}
    pairs_made: list[str] = []
    while len(pairs_made) < count - len(frequent):
        pairs: dict[tuple[str, str], int] = {}
        for word, symbols in spelt.items():
            for pair in pairwise(symbols):
                pairs[pair] = pairs.get(pair, 0) + words[word]
        if not pairs:
            break
        left, right = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if left + right not in pairs_made:
            pairs_made.append(left + right)
        for symbols in spelt.values():
            _join(symbols, left, right)
    # Pairs come first: letters are never made of others, so their rank does not count.
    return Tokenizer((*pairs_made, *frequent))


def _join(symbols: list[str], left: str, right: str) -> None:
    at = 0
    while at < len(symbols) - 1:
        if symbols[at] == left and symbols[at + 1] == right:
            symbols[at : at + 2] = [left + right]
        at += 1


def _words(line: str) -> list[str]:
    """*line* in words, each with the space before it."""
    words: list[str] = []
    for letter in line:
        if not words or (letter == SPACE and not words[-1].endswith(SPACE)):
            words.append(letter)
        else:
            words[-1] += letter
    return words


def _counts(things: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for thing in things:
        found[thing] = found.get(thing, 0) + 1
    return found
