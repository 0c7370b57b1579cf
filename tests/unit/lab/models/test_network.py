"""The tiny model's parts: gradients, training that repeats to the bit, tokens, files."""

from __future__ import annotations

from pathlib import Path

import pytest

np = pytest.importorskip("numpy", reason="training needs requirements/model.in")
pytest.importorskip("gguf", reason="training needs requirements/model.in")
pytest.importorskip("onnx", reason="training needs requirements/model.in")

from pinion.lab.models.corpus import corpus, corpus_text  # noqa: E402 - after the libraries are known to be there
from pinion.lab.models.evaluation import perplexity, rows  # noqa: E402
from pinion.lab.models.gguf_file import write_gguf  # noqa: E402
from pinion.lab.models.network import Network, Shape, initial  # noqa: E402
from pinion.lab.models.onnx_file import write_onnx  # noqa: E402
from pinion.lab.models.training import Schedule, train  # noqa: E402
from pinion.services.onnx_model_server.tokenizer import Tokenizer, learn  # noqa: E402

SMALL = {"width": 16, "layers": 2, "heads": 2, "feed_forward": 24, "context": 32}
TEXT = "The plan says what follows.\nThe site says what there is, and the plan says the rest.\n" * 30


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn(TEXT, 40)


def trained(tokenizer: Tokenizer, steps: int = 30) -> Network:
    tokens = np.array([token for row in rows(tokenizer, TEXT) for token in row], np.int64)
    shape = Shape(vocabulary=tokenizer.size, **SMALL)
    return train(shape, Schedule(steps=steps, batch=4, length=16, warm_up=3), tokens, lambda *_: None)


def test_every_gradient_is_the_slope_of_the_loss() -> None:
    """Central differences in float64, at one random place of every weight."""
    random = np.random.Generator(np.random.PCG64(1))
    shape = Shape(vocabulary=20, **SMALL)
    weights = {name: value.astype(np.float64) for name, value in initial(shape, random).items()}
    network = Network(shape, weights)
    tokens, following = random.integers(0, 20, (2, 6)), random.integers(0, 20, (2, 6))
    _, grads = network.loss(tokens, following)
    assert grads.keys() == weights.keys()
    for name, weight in weights.items():
        at = tuple(random.integers(0, size) for size in weight.shape)
        found = []
        for step in (1e-5, -1e-5):
            weight[at] += step
            found.append(network.loss(tokens, following)[0])
            weight[at] -= step
        assert abs((found[0] - found[1]) / 2e-5 - grads[name][at]) < 1e-5, name


def test_the_same_inputs_give_the_same_bytes(tokenizer: Tokenizer, tmp_path: Path) -> None:
    made = []
    for number in (1, 2):
        network = trained(tokenizer)
        for write, kind in ((write_gguf, "gguf"), (write_onnx, "onnx")):
            write(tmp_path / f"{number}.{kind}", "small", network, tokenizer)
        made.append([(tmp_path / f"{number}.{kind}").read_bytes() for kind in ("gguf", "onnx")])
    assert made[0] == made[1]


def test_what_is_trained_is_better_than_frequencies_and_those_than_chance(tokenizer: Tokenizer) -> None:
    tokens = np.array([token for row in rows(tokenizer, TEXT) for token in row], np.int64)
    judged = perplexity(trained(tokenizer, 120), tokens, rows(tokenizer, "The site says what there is.\n"))
    assert judged.model < judged.unigram / 3 < judged.uniform / 3


@pytest.mark.parametrize(
    "text", ["The plan says.", "two  spaces, a tab\tand\nlines\n", "Zürich \u2581 \U0001f600", "", " "]
)
def test_tokens_come_back_as_text(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text.replace("\u2581", " ")


def test_no_paragraph_is_both_learnt_and_judged_by() -> None:
    text = corpus()
    learnt, held = text.training.splitlines(), text.held_out.splitlines()
    assert not set(learnt) & set(held)
    assert len(held) > 300
    assert sorted(learnt + held) == sorted(corpus_text().splitlines())
