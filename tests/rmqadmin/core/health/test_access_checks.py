"""Whether controllers check users, as doctor finds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from rmqadmin.core.health.access_checks import controllers_access, read_controller_configs
from rmqclient.admin import AdminClient
from rmqproto.errors import ConnectError
from rmqproto.wire.credentials import Credentials
from tests.support import servers


class Told:
    """A stand-in for a client, with each controller's answer."""

    def __init__(self, **configs: dict[str, str] | None):
        self._configs = configs

    def controller_config(self, addr: str, *, with_own_defaults: bool) -> dict[str, str]:
        assert with_own_defaults
        config = self._configs[addr]
        if config is None:
            raise ConnectError(addr)
        return config


@pytest.mark.parametrize(
    ("config", "grade", "said"),
    [
        (
            {"bindAddress": "0.0.0.0", "authenticationEnabled": "false"},
            "warning",
            "listens on 0.0.0.0 and serves anybody",
        ),
        ({"bindAddress": "10.0.0.9", "authenticationEnabled": "true"}, "ok", "checks users"),
        ({"bindAddress": "127.0.0.1", "authenticationEnabled": "false"}, "ok", "listens only on 127.0.0.1"),
        ({"bindAddress": "0.0.0.0"}, "note", "it checks no users, as all of Apache's"),
    ],
)
def test_whether_a_controller_asks_who_somebody_is(config: dict[str, str], grade: str, said: str) -> None:
    admin = cast(Any, Told(c1=config, c2=None))
    (found,) = controllers_access(read_controller_configs(admin, ["c2", "c1", "c1"]))
    assert (found.check, found.grade, found.subject.name) == ("access", grade, "c1")
    assert said in found.what
    assert (found.fix is None) is (grade == "ok")


def test_real_controllers_tell(tmp_path: Path) -> None:
    """127.1 is 127.0.0.1, spelled so that it does not look like an address of this machine alone."""
    user = Credentials("root", "root-secret")
    on = (
        "--set", "authenticationEnabled=true",
        "--set", f'initAuthenticationUser={{"username":"{user.access_key}","password":"{user.secret_key}"}}',
    )  # fmt: skip
    with (
        servers.controller(tmp_path / "open", "--listen", "127.1") as open_to_all,
        servers.controller(tmp_path / "guarded", "--listen", "127.1", *on) as guarded,
        AdminClient("127.0.0.1:1", user) as admin,
    ):
        addrs = [open_to_all.controller_addr, guarded.controller_addr]
        found = {one.subject.name: one for one in controllers_access(read_controller_configs(admin, addrs))}
    assert found[addrs[0]].grade == "warning"
    assert "authenticationEnabled=true in its settings" in (found[addrs[0]].fix or "")
    assert (found[addrs[1]].grade, found[addrs[1]].what) == ("ok", "checks users")
