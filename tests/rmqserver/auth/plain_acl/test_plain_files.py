import logging
from pathlib import Path

import pytest

from rmqproto.access.resources import group_resource, topic_resource
from rmqproto.errors import UsageError
from rmqserver.auth.plain_acl.plain_files import Perm, PlainFiles

PLAIN = """\
globalWhiteRemoteAddresses:
  - 10.10.103.*
accounts:
  - accessKey: orders-app
    secretKey: 0123456789
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms: [orders=PUB|SUB, audit=DENY]
    groupPerms:
      - orders-reader = SUB
  - {accessKey: operator, secretKey: 12345678, whiteRemoteAddress: 192.168.1.*, admin: true}
dataVersion:
  - {timestamp: 1, counter: 2}
"""


def write(home: Path, name: str, text: str) -> None:
    path = home / "conf" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_accounts_as_apache_reads_them(tmp_path: Path) -> None:
    write(tmp_path, "plain_acl.yml", PLAIN)
    acl = PlainFiles(str(tmp_path)).read()
    assert [white.has("10.10.103.9") for white in acl.global_white] == [True]
    app, operator = acl.accounts["orders-app"], acl.accounts["operator"]
    assert app.secret_key == "0123456789"  # a text, although it looks like a number
    assert (app.is_admin, operator.is_admin) == (False, True)
    assert not app.white_addresses.is_any
    assert operator.white_addresses.has("192.168.1.7")
    assert "0123456789" not in repr(app)
    for resource, perm, refusal in (
        (topic_resource("orders"), Perm.PUB, None),
        (topic_resource("orders"), Perm.SUB, None),
        (topic_resource("audit"), Perm.SUB, "No permission for topic:audit"),
        (topic_resource("other"), Perm.SUB, "No default permission for topic:other"),
        (group_resource("orders-reader"), Perm.SUB, None),
        (group_resource("%RETRY%orders-reader"), Perm.PUB, "No permission for group:orders-reader"),
        (group_resource("other"), Perm.SUB, None),
        (group_resource("other"), Perm.PUB, "No default permission for group:other"),
    ):
        assert app.refusal(resource, perm) == refusal
    assert operator.refusal(topic_resource("x"), Perm.PUB) == "No default permission for topic:x"  # if it were no admin


def test_all_files_together_and_who_came_first_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, "plain_acl.yml", PLAIN)
    write(tmp_path, "acl/a.yml", "accounts: [{accessKey: operator, secretKey: other-secret}]")
    write(tmp_path, "acl/deep/b.yaml", "accounts: [{accessKey: another, secretKey: 12345678}]")
    write(tmp_path, "acl/readme.txt", "no YAML: [")
    files = PlainFiles(str(tmp_path))
    with caplog.at_level(logging.WARNING):
        accounts = files.read().accounts
    assert accounts.keys() == {"operator", "another", "orders-app"}
    assert accounts["operator"].secret_key == "other-secret"
    assert "event=account-repeated access_key=operator" in caplog.text
    before = files.stamps()
    write(tmp_path, "acl/c.yml", "")
    assert files.stamps() != before
    assert files.read().accounts.keys() == accounts.keys()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("accounts: [", "line 1: "),
        ("- a", "the file: must be names with values"),
        ("account: []", "the file: 'account' is none of accounts, dataVersion, globalWhiteRemoteAddresses"),
        ("accounts: {}", None),
        ("accounts: x", "accounts: must be a list"),
        (
            "accounts: [{accessKey: short, secretKey: 12345678}]",
            "accounts[0].accessKey: must have 7 characters or more",
        ),
        (
            "accounts: [{accessKey: long-enough, secretKey: '123456'}]",
            "accounts[0].secretKey: must have 7 characters or more",
        ),
        ("accounts: [{accessKey: long-enough}]", "accounts[0].secretKey: must have 7 characters or more"),
        ("accounts: [{accessKey: long-enough, secretKey: SECRETS, perms: 1}]", "accounts[0]: 'perms' is none of"),
        (
            "accounts: [{accessKey: long-enough, secretKey: SECRETS, admin: maybe}]",
            "accounts[0].admin: must be true or false",
        ),
        ("accounts: [{accessKey: long-enough, secretKey: SECRETS, topicPerms: [a]}]", "topicPerms: must be NAME=PERM"),
        (
            "accounts: [{accessKey: long-enough, secretKey: SECRETS, topicPerms: [a=PUBB]}]",
            "'PUBB' is none of DENY, PUB",
        ),
        ("accounts: [{accessKey: long-enough, secretKey: SECRETS, defaultTopicPerm: ALL}]", "'ALL' is none of DENY"),
        ("accounts: [{accessKey: long-enough, secretKey: SECRETS, whiteRemoteAddress: 1.2}]", "1.2 is not an address"),
        ("globalWhiteRemoteAddresses: [x]", "globalWhiteRemoteAddresses: x is not an address"),
        ("a: &x [1]\nb: *x", "aliases are not taken"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(tmp_path: Path, text: str, said: str | None) -> None:
    write(tmp_path, "plain_acl.yml", text)
    if said is None:
        assert PlainFiles(str(tmp_path)).read().accounts == {}
        return
    with pytest.raises(UsageError) as caught:
        PlainFiles(str(tmp_path)).read()
    assert f"{tmp_path}/conf/plain_acl.yml" in str(caught.value)
    assert said in str(caught.value)
    assert "SECRETS" not in str(caught.value)


def test_no_file_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"neither .*/conf/plain_acl.yml nor a file in .*/conf/acl"):
        PlainFiles(str(tmp_path)).read()
