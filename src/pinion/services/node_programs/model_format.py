#!/usr/bin/python3 -I
"""Whether a file is a model of the stated format and architecture, and whole: model-format gguf|onnx ARCHITECTURE FILE.

Only heads and places are read, not weights: a GGUF file's facts and where its tensors lie, an ONNX file's fields from end to end. What is
wrong goes to standard output. Exit: 0 it is, 1 it is not, 2 could not be read.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
from pathlib import Path
from typing import BinaryIO


class RefusedError(Exception):
    """The file is not what it is said to be; the text says why."""


def check(path: Path, kind: str, architecture: str) -> None:
    """Check that *path* is of *kind* and for *architecture*, as far as its head and its parts' places tell. Raises `RefusedError`."""
    try:
        with path.open("rb") as file:
            if kind == "gguf":
                found = gguf_architecture(file, path.stat().st_size)
                if found != architecture:
                    raise RefusedError(f"it is a model of architecture {found[:40]!r}, not {architecture!r}")
            else:
                check_onnx(file, path.stat().st_size)
    except (struct.error, UnicodeDecodeError, IndexError, KeyError) as error:
        raise RefusedError(f"it is no {kind} file: its head is broken off or not one") from error


#: GGUF's kinds of value by number: the format of struct(3) for one (GGUF specification). 8 is text, 9 a list.
_GGUF_VALUES = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<B", 10: "<Q", 11: "<q", 12: "<d"}
_GGUF_MOST = 1 << 24


def gguf_architecture(file: BinaryIO, size: int) -> str:
    """The architecture that a GGUF file is for. Raises `RefusedError` when it is none, or its tensors lie beyond its end."""

    def number(form: str) -> int:
        return int(struct.unpack(form, file.read(struct.calcsize(form)))[0])

    def text() -> bytes:
        length = number("<Q")
        if length > _GGUF_MOST:
            raise RefusedError("it is no gguf file: a name in it is longer than the file may be")
        return file.read(length)

    def value(kind: int) -> object:
        if kind == 8:
            return text()
        if kind != 9:
            return struct.unpack(_GGUF_VALUES[kind], file.read(struct.calcsize(_GGUF_VALUES[kind])))[0]
        inner, count = number("<I"), number("<Q")
        if count > _GGUF_MOST or inner == 9:
            raise RefusedError("it is no gguf file: a list in it is longer than the file may be")
        if inner == 8:
            for _ in range(count):
                text()
        else:
            file.seek(struct.calcsize(_GGUF_VALUES[inner]) * count, os.SEEK_CUR)
        return None

    if file.read(4) != b"GGUF":
        raise RefusedError("it is no gguf file: it does not begin with GGUF")
    version, tensors, facts = number("<I"), number("<Q"), number("<Q")
    if version not in {2, 3} or not 0 < tensors < _GGUF_MOST or not 0 < facts < _GGUF_MOST:
        raise RefusedError(f"it is a gguf file of version {version} (big-endian ones are of no use here either)")
    found = {text().decode(): value(number("<I")) for _ in range(facts)}
    last = 0
    for _ in range(tensors):
        text()
        dimensions = number("<I")
        if dimensions > 8:
            raise RefusedError("it is no gguf file: a tensor has too many dimensions")
        file.read(8 * dimensions + 4)
        last = max(last, number("<Q"))
    if file.tell() + last >= size:
        raise RefusedError("it is cut short: its last tensor lies beyond its end")
    architecture = found.get("general.architecture")
    return architecture.decode() if isinstance(architecture, bytes) else ""


def check_onnx(file: BinaryIO, size: int) -> None:
    """Check that *file* is a message of ONNX's ModelProto with a graph, whole fields to its very end. Raises `RefusedError`."""

    def varint() -> int:
        found = shift = 0
        while True:
            byte = file.read(1)[0]
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7

    seen = set()
    while file.tell() < size:
        tag = varint()
        kind, field = tag & 7, tag >> 3
        seen.add((field, kind))
        if kind == 0:
            varint()
        elif kind in {1, 2, 5}:
            file.seek(varint() if kind == 2 else 8 if kind == 1 else 4, os.SEEK_CUR)
        else:
            raise RefusedError("it is no onnx file")
    if file.tell() != size or not {(1, 0), (7, 2), (8, 2)} <= seen:
        raise RefusedError("it is no onnx file: it lacks a version, a graph or its operators, or it is cut short")


def main(arguments: list[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="model-format", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("format", choices=("gguf", "onnx"))
    parser.add_argument(
        "architecture", help="of a GGUF file, such as llama; an ONNX file is its own program and has none"
    )
    parser.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    try:
        check(options.file, options.format, options.architecture)
    except RefusedError as error:
        print(error)
        return 1
    except OSError as error:
        print(f"model-format: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
