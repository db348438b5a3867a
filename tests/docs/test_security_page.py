"""The steps of docs/security.md for hardening a server in five minutes work as written."""

import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support import servers
from tests.support.certificates import Authority

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs/security.md"
SECRETS = {"admin": "admin-Xk7/qP9z", "inner": "inner-Xk7/qP9z", "orders": "orders-Xk7/qP9z"}


def steps() -> tuple[str, str, list[str]]:
    """The configuration file, the command that starts the server, and the shell commands that follow."""
    section = PAGE.read_text().partition("## Harden it in five minutes")[2].partition("\n## ")[0]
    blocks = re.findall(r"```(\w+)\n(.*?)```", section, re.DOTALL)
    lines = [line.strip() for kind, text in blocks if kind == "sh" for line in text.splitlines() if line.strip()]
    (config,) = (textwrap.dedent(text) for kind, text in blocks if kind == "properties")
    (start,) = re.findall(r"`(rmqserver [^`]+)`", section)
    return config, start, lines


def test_it_holds_what_it_promises(tmp_path: Path) -> None:
    config, start, lines = steps()
    authority = Authority(tmp_path, "ca")
    server = authority.sign("server")
    for name in ("admin", "inner"):
        config = config.replace("…", SECRETS[name], 1)
    for there, here in (("/etc/rocketmq/server.pem", server.cert), ("/etc/rocketmq/server.key", server.key)):
        assert there in config
        config = config.replace(there, str(here))
    (tmp_path / "broker.conf").write_text(config)
    for name, user in (("rmq", "admin"), ("orders", "orders")):
        (tmp_path / name).write_text(SECRETS[user])
    options = shlex.split(start)
    assert options[:2] + options[-2:] == ["rmqserver", "standalone", "--config", "broker.conf"]
    with servers.standalone(tmp_path / "server", "--config", tmp_path / "broker.conf") as running:
        env = {name: value for name, value in os.environ.items() if not name.startswith("RMQADMIN")}
        env |= {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}

        def run(line: str) -> tuple[int, str]:
            if line.startswith("export "):
                name, _, value = line.removeprefix("export ").partition("=")
                env[name] = value
                return 0, ""
            assert line.startswith("rmqadmin ")
            for there, here in (
                ("10.0.0.5:9876", running.namesrv_addr), ("ca.pem", str(authority.cert)),
                ("/run/secrets/", f"{tmp_path}/"),
            ):  # fmt: skip
                line = line.replace(there, here)
            done = subprocess.run(
                f"{shlex.quote(sys.executable)} -m {line}", shell=True, env=env, capture_output=True, text=True,
                check=False,
            )  # fmt: skip
            said = done.stdout + done.stderr
            assert not [name for name, secret in SECRETS.items() if secret in said], line
            return done.returncode, said

        for line in lines[:-2]:
            status, said = run(line)
            assert status == 0, said
        status, said = run(lines[-2])
        assert status != 0
        assert "username cannot be null." in said
        status, said = run(lines[-1])
        assert (status, "no permission to access Topic:audit" in said) == (1, True)
        assert run("rmqadmin acl can orders Pub Topic:orders --from 10.0.3.4")[0] == 0
        assert run("rmqadmin --context none clusterList -n 10.0.0.5:9876")[0] != 0, "plain"
    assert not [name for name, secret in SECRETS.items() if secret in running.log_file.read_text()]
