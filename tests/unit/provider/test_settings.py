"""The provider's configuration: all mistakes at once, secrets marked and never shown."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from doubles.plugin_engine import Client, started

from pinion.provider.main import SITE, SWITCH_CONFIG, PinionPlugin
from pinion.provider.plugin import UNKNOWN, Secret
from pinion.provider.plugin.values import decode
from pinion.provider.settings import STACK_KEYS, Settings, read_settings


@pytest.fixture
def client() -> Iterator[Client]:
    with started(PinionPlugin()) as client:
        yield client


def test_secrets_come_back_marked(client: Client) -> None:
    response = client.check_config(
        {"netboxUrl": "https://nb", "netboxToken": "nbt_abcdef", "switchPassword": Secret("hunter2")}
    )
    assert not response.failures
    assert decode(response.inputs) == {
        "netboxUrl": "https://nb",
        "netboxToken": Secret("nbt_abcdef"),
        "switchPassword": Secret("hunter2"),
    }


def test_every_mistake_is_told_in_the_stacks_own_words_without_values(client: Client) -> None:
    wrong = {"netboxUrl": "nb.example", "netboxReadTimeout": "soon", "adopt": "perhaps", "netboxTokn": "nbt_abcdef"}
    reasons = [failure.reason for failure in client.check_config(wrong).failures]
    assert [reason.partition(": ")[0] for reason in reasons] == [
        "netbox:readTimeout",
        "netbox:url",
        "netboxTokn",
        "pinion:adopt",
    ]
    assert "known are netboxUrl" in reasons[2]
    assert "nbt_abcdef" not in " ".join(reasons)


def test_what_a_preview_cannot_know_is_not_judged(client: Client) -> None:
    assert not client.check_config({"netboxUrl": UNKNOWN, "netboxToken": UNKNOWN}).failures


def test_texts_from_the_stack_become_values() -> None:
    settings = read_settings(
        {"netboxUrl": "https://nb/api/", "adopt": "true", "netboxReadTimeout": "7.5", "version": "1"}
    )
    assert (settings.netbox_url, settings.adopt, settings.netbox_read_timeout) == ("https://nb", True, 7.5)


def test_settings_do_not_show_secrets() -> None:
    settings = read_settings({"netboxToken": "nbt_abcdef", "switchPassword": "hunter2"})
    assert "nbt_abcdef" not in f"{settings!r} {settings}"
    assert "hunter2" not in f"{settings!r} {settings}"


def test_every_setting_has_a_name_in_the_stack() -> None:
    assert set(STACK_KEYS) == {field.alias for field in Settings.model_fields.values()}


def test_a_missing_setting_is_told_when_it_is_needed(client: Client) -> None:
    client.configure({"netboxUrl": "https://nb"})
    with pytest.raises(grpc.RpcError) as caught:
        client.read(SITE, "lab", "lab")
    assert (
        caught.value.details()
        == "netbox:token is not set in this stack; say: pulumi config set --secret netbox:token …"
    )
    with pytest.raises(grpc.RpcError, match="pinion has no resource pinion:netbox:Tenant; it has pinion:netbox:Site"):
        client.check("pinion:netbox:Tenant", "t", {})


def test_changing_settings_never_replaces_anything(client: Client) -> None:
    changes = client.diff_config(
        {"netboxUrl": "https://a", "netboxToken": "x"}, {"netboxUrl": "https://b", "netboxToken": "y"}
    )
    assert changes == {"netboxUrl": "UPDATE", "netboxToken": "UPDATE"}


def test_the_schema_names_all_resources(client: Client) -> None:
    schema = client.schema()
    assert {SITE, SWITCH_CONFIG} < set(schema["resources"])
    device = schema["resources"]["pinion:netbox:Device"]
    assert device["inputProperties"]["interfaces"]["additionalProperties"] == {
        "$ref": "#/types/pinion:netbox:Interface"
    }
    assert "name" not in schema["types"]["pinion:netbox:Interface"]["properties"]
    assert schema["provider"]["inputProperties"]["netboxToken"]["secret"] is True
