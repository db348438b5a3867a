"""Requests from templates equal those that are encoded one by one, and no two are alike."""

from __future__ import annotations

import pytest

from rmqadmin.core.load.load_plan import LoadPlan
from rmqadmin.core.load.load_run import new_run_id
from rmqadmin.core.load.templates import FIRST_NUMBER, STAMP_MARK, PullTemplate, send_template
from rmqproto.codes import RequestCode
from rmqproto.message import properties as props
from rmqproto.message.record import batch_parts_untrusted
from rmqproto.wire.command import decode_frame_untrusted
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.signing import SIGNATURE, signature

KEYS = Credentials("user", "secret", "token")


def plan(**more: object) -> LoadPlan:
    fields = {
        "topic": "50%Topic", "group": "Group", "run_id": new_run_id(), "lanes": [], "size_bytes": 60, "in_flight": 1,
        "batch_size": 1, "rate": 0.0, "duration_s": 1.0, "warm_up_s": 0.0, "interval_s": 1.0, "timeout_s": 1.0,
    }  # fmt: skip
    return LoadPlan(**{**fields, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("credentials", [None, KEYS])
def test_a_message(credentials: Credentials | None) -> None:
    template = send_template(plan(credentials=credentials, tag="Tag", has_keys=True), 3)
    unique = set()
    for number in (FIRST_NUMBER, FIRST_NUMBER + 7, 1_987_654_321):
        command = decode_frame_untrusted(template.fill(number, 5))
        assert (command.code, command.opaque) == (RequestCode.SEND_MESSAGE_V2, number)
        assert (command.ext["b"], command.ext["e"], command.body) == ("50%Topic", "3", b"x" * 60)
        properties = props.parse(command.ext["i"])
        assert properties[props.TAGS] == "Tag"
        assert properties[props.KEYS].endswith(str(number))
        unique.add(properties[props.UNIQUE_KEY])
        if credentials is not None:
            assert command.ext[SIGNATURE] == signature(command.ext, command.body, credentials.secret_key)
    assert len(unique) == 3
    assert {len(key) for key in unique} == {32}


@pytest.mark.parametrize("credentials", [None, KEYS])
def test_a_batch(credentials: Credentials | None) -> None:
    template = send_template(plan(batch_size=40, credentials=credentials), 0)
    commands = [decode_frame_untrusted(template.fill(FIRST_NUMBER + number, 0)) for number in (1, 2)]
    parts = [part for command in commands for part in batch_parts_untrusted(command.body)]
    keys = {props.parse(part[2][2:].decode())[props.UNIQUE_KEY] for part in parts}
    assert len(parts) == len(keys) == 80
    assert {part[1] for part in parts} == {b"x" * 60}
    for command in commands:
        assert (command.code, command.ext["m"]) == (RequestCode.SEND_BATCH_MESSAGE, "true")
        if credentials is not None:
            assert command.ext[SIGNATURE] == signature(command.ext, command.body, credentials.secret_key)


def test_a_stamped_body_says_when_it_was_to_be_sent() -> None:
    wanted = plan(is_stamped=True)
    body = decode_frame_untrusted(send_template(wanted, 0).fill(FIRST_NUMBER, 1234)).body
    assert body == (STAMP_MARK + wanted.run_id.encode() + b" 0000001234").ljust(60, b"x")


@pytest.mark.parametrize("credentials", [None, KEYS])
def test_a_pull_has_the_offset_without_zeros_in_front(credentials: Credentials | None) -> None:
    template = PullTemplate(plan(batch_size=32, credentials=credentials), 2)
    for offset in (0, 7, 123_456_789_012):
        command = decode_frame_untrusted(template.fill(FIRST_NUMBER, offset))
        assert command.code == RequestCode.PULL_MESSAGE
        assert (command.ext["queueOffset"], command.ext["queueId"]) == (str(offset), "2")
        if credentials is not None:
            assert command.ext[SIGNATURE] == signature(command.ext, b"", credentials.secret_key)
