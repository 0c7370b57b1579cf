"""The signed policy: only what the site's key signed, for this site, in a known format and newer than what holds, is taken."""

from __future__ import annotations

import base64
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pinion.plan.routing import routing_policy
from pinion.routing import Mode, RoutingPolicy
from pinion.routing.document import CONTEXT, PolicyRefusedError, PolicyStore, canonical, signed, verified
from pinion.site.model import Site

EVERY_KEY = Path(__file__).parents[1] / "plan/every_key.yml"
KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
PUBLIC = base64.b64encode(KEY.public_key().public_bytes_raw()).decode()
FIRST = RoutingPolicy(site="rack", version=1, mode=Mode.EARLY_EXIT)
SECOND = dataclasses.replace(FIRST, version=2, confidence=0.5)


def by_hand(text: str, key: Ed25519PrivateKey = KEY, context: bytes = CONTEXT) -> bytes:
    signature = base64.b64encode(key.sign(context + text.encode())).decode()
    return json.dumps({"policy": text, "signature": signature}).encode()


def other_json(**changes: Any) -> bytes:
    stated = json.loads(canonical(FIRST)) | changes
    return by_hand(json.dumps(stated, sort_keys=True, separators=(",", ":")))


REFUSED: dict[str, tuple[bytes, str]] = {
    "not JSON": (b"{", "no signed policy"),
    "not UTF-8": (b"\xff\xfe\x00", "no signed policy"),
    "nested without end": (b"[" * 100_000, "no signed policy"),
    "a list": (b"[]", "no signed policy: Input should be"),
    "numbers": (b'{"policy": 1, "signature": 2}', "no signed policy: Input should be"),
    "a surrogate": (b'{"policy": "\\ud800", "signature": "AA=="}', "no signed policy"),
    "too large": (b" " * ((1 << 20) + 1), "has 1048577 bytes"),
    "unsigned": (json.dumps({"policy": canonical(SECOND), "signature": ""}).encode(), "the signature does not hold"),
    "another key": (signed(SECOND, OTHER), "the signature does not hold"),
    "changed": (signed(SECOND, KEY).replace(b"0.5", b"0.4"), "the signature does not hold"),
    "signed as something else": (by_hand(canonical(SECOND), context=b""), "the signature does not hold"),
    "signed rubbish": (by_hand("{"), "is no JSON"),
    "a format to come": (other_json(format=2), "has format 2, and this program knows 1"),
    "a key to come": (other_json(hedging=True), "hedging"),
    "a wrong value": (other_json(confidence=1.5), "confidence: 1.5 is not a number from 0 to 1"),
    "not a number": (by_hand(canonical(FIRST).replace("0.85", "NaN")), "confidence"),
    "another spelling": (by_hand(canonical(SECOND) + " "), "canonical form"),
    "a key twice": (by_hand(canonical(SECOND).replace('{"confidence"', '{"cpu":0.8,"confidence"')), "canonical form"),
    "a text for a number": (other_json(cpu="0.8"), "canonical form"),
    "no version": (other_json(version=0), "canonical form, or has no version"),
    "another site": (signed(dataclasses.replace(SECOND, site="elsewhere"), KEY), "is for site 'elsewhere'"),
    "older": (signed(dataclasses.replace(FIRST, version=4), KEY), "version 4 is not newer than 5"),
    "the same version, other content": (
        signed(dataclasses.replace(SECOND, version=5), KEY),
        "version 5 is not newer than 5",
    ),
}
HOLDS = dataclasses.replace(FIRST, version=5)


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_policy_is_refused_and_the_last_good_one_stays(case: str, tmp_path: Path) -> None:
    document, said = REFUSED[case]
    store = PolicyStore(tmp_path / "policy.json", PUBLIC, "rack")
    store.offer(signed(HOLDS, KEY))
    before = (tmp_path / "policy.json").read_bytes()
    with pytest.raises(PolicyRefusedError, match=said):
        store.offer(document)
    assert store.policy == HOLDS
    assert (tmp_path / "policy.json").read_bytes() == before
    assert PolicyStore(tmp_path / "policy.json", PUBLIC, "rack").policy == HOLDS
    assert [path.name for path in tmp_path.iterdir()] == ["policy.json"]


def test_a_newer_policy_is_taken_and_outlives_the_service(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    store = PolicyStore(file, PUBLIC, "rack")
    assert (store.policy, store.complaint) == (None, None)
    assert store.offer(signed(FIRST, KEY)) == FIRST
    assert store.offer(signed(FIRST, KEY)) == FIRST
    assert store.offer(signed(SECOND, KEY)) == SECOND
    assert PolicyStore(file, PUBLIC, "rack").policy == SECOND


def test_a_broken_file_is_no_policy_and_is_told(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_bytes(signed(SECOND, KEY)[:-9])
    store = PolicyStore(file, PUBLIC, "rack")
    assert store.policy is None
    assert store.complaint is not None
    assert str(file) in store.complaint
    store.offer(signed(FIRST, KEY))
    assert store.complaint is None


def test_a_disk_that_takes_nothing_leaves_the_old_policy(tmp_path: Path) -> None:
    store = PolicyStore(tmp_path / "none" / "policy.json", PUBLIC, "rack")
    with pytest.raises(OSError, match="none"):
        store.offer(signed(FIRST, KEY))
    assert store.policy is None


def test_a_policy_without_a_version_is_not_signed() -> None:
    with pytest.raises(ValueError, match="version"):
        signed(RoutingPolicy(site="rack"), KEY)


def test_what_a_site_file_states_is_the_policy_and_survives_the_document() -> None:
    planned = routing_policy(Site.model_validate(yaml.safe_load(EVERY_KEY.read_text())))
    assert (planned.version, planned.prompt_tokens, planned.queue_wait, planned.cpu) == (0, 512, 0.2, 0.7)
    assert (planned.confidence, planned.local_tokens, planned.speculative_tokens, planned.pool_timeout) == (
        0.5,
        256,
        16,
        2.0,
    )
    objectives = planned.objectives
    assert (objectives.edge_p50, objectives.edge_p95, objectives.site_p95) == (0.1, 0.3, 0.9)
    assert objectives.availability == pytest.approx(0.999)
    assert objectives.alert_at == 0.5
    tiny, spare = planned.models
    assert (tiny.name, tiny.edge, tiny.pool, tiny.runtime, tiny.replicas) == (
        "tiny",
        "pinion-tiny",
        "pinion-large",
        "triton",
        2,
    )
    assert (spare.edge, spare.pool, spare.replicas) == ("pinion-spare", None, 0)
    published = dataclasses.replace(planned, version=7)
    assert verified(signed(published, KEY), PUBLIC) == published


def test_a_site_that_states_nothing_has_the_defaults() -> None:
    stated = yaml.safe_load(EVERY_KEY.read_text())
    del stated["routing"], stated["objectives"]
    policy = routing_policy(Site.model_validate(stated))
    assert policy == RoutingPolicy(site=stated["site"], models=policy.models)
