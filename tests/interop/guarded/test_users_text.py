"""Users, ACL and exports by mqadmin and by ours, at brokers that keep users: both print the same."""

from pathlib import Path

import pytest

from tests.support.auth_walk import ROOT

from ..cluster import BROKER_NAME, CLUSTER_NAME, SYSTEMS
from ..mqadmin import Mqadmin
from ..tools.same_text import compare
from .test_auth import GUARDED

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_they_print_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("STATE", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    monkeypatch.setenv("RMQADMIN_ACCESS_KEY", ROOT.access_key)
    monkeypatch.setenv("RMQADMIN_SECRET_KEY", ROOT.secret_key)
    home = tmp_path / "tools"
    (home / "conf").mkdir(parents=True)
    (home / "conf/tools.yml").write_text(f"accessKey: {ROOT.access_key}\nsecretKey: {ROOT.secret_key}\n")
    with SYSTEMS[name](tmp_path / name, GUARDED) as system, Mqadmin(system.namesrv_addr, home) as mqadmin:
        monkeypatch.setenv("NAMESRV_ADDR", system.namesrv_addr)
        names = {
            "cluster": CLUSTER_NAME, "broker": system.broker_addr, "name": BROKER_NAME, "fresh": "Every",
            "dir": str(tmp_path / "exported"),
        }  # fmt: skip
        compare("guarded", names, mqadmin)
