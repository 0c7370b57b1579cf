"""Train the model and write its files into a folder: python -m pinion.lab.models.build FOLDER [--steps N]. `artefacts.obtain` runs it."""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
import time
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

import numpy as np

from pinion.lab.models.artefacts import ENVIRONMENT, LIBRARIES, MANIFEST, NAME, inputs_digest
from pinion.lab.models.corpus import corpus, corpus_text
from pinion.lab.models.evaluation import LENGTH, PROMPT, greedy, perplexity, rows
from pinion.lab.models.gguf_file import write_gguf
from pinion.lab.models.network import Network, Shape
from pinion.lab.models.onnx_file import write_onnx
from pinion.lab.models.training import Schedule, train
from pinion.services.onnx_model_server.tokenizer import BEGIN, FIRST_PIECE, Tokenizer, learn

#: All tokens: special ones, bytes and pieces.
_VOCABULARY = 512


def build(folder: Path, schedule: Schedule) -> dict[str, object]:
    """Train by *schedule*, write the files into *folder*; the manifest."""
    began = time.monotonic()

    def told(step: int, loss: float) -> None:
        if step % 25 == 0 or step == schedule.steps - 1:
            print(f"step {step + 1} of {schedule.steps}: loss {loss:.3f}, {time.monotonic() - began:.0f} s", flush=True)

    text = corpus()
    tokenizer = learn(text.training, _VOCABULARY - FIRST_PIECE)
    tokens = np.array([token for row in rows(tokenizer, text.training) for token in row], np.int64)
    shape = Shape(vocabulary=tokenizer.size)
    network = train(shape, schedule, tokens, told)
    write_gguf(folder / f"{NAME}.gguf", NAME, network, tokenizer)
    write_onnx(folder / f"{NAME}.onnx", NAME, network, tokenizer)
    judged = perplexity(network, tokens, rows(tokenizer, text.held_out))
    manifest: dict[str, object] = {
        "name": NAME,
        "inputs": inputs_digest(),
        "corpus": {"sha256": hashlib.sha256(corpus_text().encode()).hexdigest(), "training_tokens": len(tokens)},
        "shape": asdict(shape) | {"parameters": sum(weight.size for weight in network.weights.values())},
        "training": asdict(schedule),
        "made_with": {library: metadata.version(library) for library in LIBRARIES}
        | {"machine": platform.machine(), "environment": ENVIRONMENT},
        "files": {name: _facts(folder / name) for name in (f"{NAME}.gguf", f"{NAME}.onnx")},
        "perplexity": {key: round(value, 3) for key, value in asdict(judged).items()},
        "reference": _reference(network, tokenizer),
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def _facts(path: Path) -> dict[str, object]:
    return {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "size": path.stat().st_size}


def _reference(network: Network, tokenizer: Tokenizer) -> dict[str, object]:
    """What the numpy network itself answers: engines are compared with it."""
    prompt = [BEGIN, *tokenizer.encode(PROMPT)]
    tokens, chances = greedy(network, prompt, LENGTH)
    return {
        "prompt": PROMPT,
        "prompt_tokens": prompt,
        "tokens": tokens,
        "text": tokenizer.decode(tokens),
        "log_probabilities": [round(chance, 6) for chance in chances],
    }


def main(arguments: list[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(
        prog="python -m pinion.lab.models.build", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=Schedule.steps, help="training steps (default: %(default)s)")
    options = parser.parse_args(arguments)
    manifest = build(options.folder, Schedule(steps=options.steps))
    print(json.dumps({key: manifest[key] for key in ("files", "perplexity", "reference")}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
