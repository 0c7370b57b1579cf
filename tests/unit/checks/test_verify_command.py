"""`pinion verify` before it reaches anything."""

from __future__ import annotations

from click.testing import CliRunner

from pinion.checks.model import Topic
from pinion.cli import main


def test_a_topic_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    result = CliRunner().invoke(main, ["verify", "lab", "--topic", "nonsense"])
    assert result.exit_code == 2
    assert "nonsense" in result.output
    assert all(topic.value in result.output for topic in Topic)
