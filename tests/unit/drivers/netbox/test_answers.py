"""NetBox's error bodies, all shapes seen on 4.6.8 and 4.7.3: what each becomes."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from pinion.drivers.netbox.errors import BulkRefusedError, ChangedError, DeniedError, RefusedError, UnreachableError
from pinion.drivers.netbox.server.answers import plain_error, sentence, write_error

URL = "https://netbox.example/api/ipam/vlans/"

ENVELOPE: JsonValue = {
    "detail": "1 of 2 objects could not be created.",
    "errors": [{"index": 1, "errors": {"vid": ["Too large."]}}],
}
BY_ID: JsonValue = {
    "detail": "1 of 2 objects could not be updated.",
    "errors": [{"id": 13, "errors": {"name": ["Taken."]}}],
}


@pytest.mark.parametrize(
    ("status", "body", "ids", "reasons"),
    [
        (400, ENVELOPE, (), {1: "vid: Too large."}),
        (400, BY_ID, (12, 13), {1: "name: Taken."}),
        (
            400,
            [{}, {"slug": ["site with this slug already exists."]}],
            (),
            {1: "slug: site with this slug already exists."},
        ),
        (400, {"__all__": ["Device name must be unique per site."]}, (), {}),
        (
            409,
            {
                "detail": "1 of 3 objects could not be deleted.",
                "errors": [{"id": 7, "errors": {"__all__": ["1 dependent"]}}],
            },
            (5, 7),
            {1: "1 dependent"},
        ),
        (
            403,
            {"detail": "…", "errors": [{"index": 0, "errors": {"__all__": ["You do not have permission"]}}]},
            (),
            {0: "You do not have permission"},
        ),
        (500, {"error": "value too long for type character varying(200)", "exception": "DataError"}, (), {}),
    ],
)
def test_refused_lists_name_their_items(
    status: int, body: JsonValue, ids: tuple[int, ...], reasons: dict[int, str]
) -> None:
    error = write_error(status, body, "VLAN list", URL, ids)
    assert isinstance(error, BulkRefusedError)
    assert error.reasons == reasons


@pytest.mark.parametrize(
    ("status", "body", "ids"),
    [
        (412, {"detail": "Precondition failed."}, (1,)),
        (500, {"error": "duplicate key value violates unique constraint", "exception": "IntegrityError"}, ()),
        (500, {"error": "deadlock detected\nDETAIL: …", "exception": "OperationalError"}, ()),
        (
            400,
            {
                "detail": "1 of 1 objects could not be found.",
                "errors": [{"id": 9, "errors": {"id": ["Object with ID 9 does not exist"]}}],
            },
            (9,),
        ),
    ],
)
def test_a_world_that_moved_is_looked_at_again(status: int, body: JsonValue, ids: tuple[int, ...]) -> None:
    assert isinstance(write_error(status, body, "VLAN list", URL, ids), ChangedError)


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("Authentication credentials were not provided.", True),
        ("Invalid v1 token", True),
        ("Invalid v2 token", True),
        ("You do not have permission to perform this action.", False),
    ],
)
def test_there_is_no_401(text: str, token: bool) -> None:
    error = plain_error(403, {"detail": text}, "VLAN list", URL)
    assert isinstance(error, DeniedError)
    assert error.token is token
    assert text in str(error)
    assert URL in str(error)


@pytest.mark.parametrize(
    ("status", "kind"), [(404, RefusedError), (429, UnreachableError), (500, UnreachableError), (502, UnreachableError)]
)
def test_other_answers(status: int, kind: type[Exception]) -> None:
    assert type(plain_error(status, "Bad Gateway (a web page, not the API)", "site list", URL)) is kind


def test_a_body_in_one_line() -> None:
    assert sentence({"name": ["Too long.", "Taken."], "__all__": ["No."]}) == "name: Too long.; Taken.; No."
    assert sentence(["'start' and 'offset' are mutually exclusive."]) == "'start' and 'offset' are mutually exclusive."
    assert len(sentence("x" * 5000)) <= 600


@pytest.mark.parametrize(
    "text",
    [
        "Source IP 192.0.2.7 is not permitted to authenticate using this token.",
        "Client IP address could not be determined for validation. Check that the HTTP server is correctly configured.",
    ],
)
def test_a_forbidden_source_address_is_told_as_what_it_is(text: str) -> None:
    """The token is good and the permissions are, too: it is used from the wrong place."""
    error = plain_error(403, {"detail": text}, "VLAN list", URL)
    assert isinstance(error, DeniedError)
    assert error.token
    assert "allowed IPs" in error.reason
    assert "permission" not in error.reason.replace("permitted", "")
