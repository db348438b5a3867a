"""After a session with a guarded broker, secrets are only where they belong: not in the output of commands, the
program's files, logs, the store or the list of processes."""

import base64
import io
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqadmin.cli.output.output_format import Format
from tests.rmqadmin.conftest import CLUSTER, Ran, Rmqadmin
from tests.support import servers
from tests.support.seen_processes import all_argv
from tests.support.servers import Server

pytestmark = pytest.mark.slow

SECRETS = {
    name: f"{name}-Xk7/qP9z+{name}"
    for name in ("root", "inner", "piped", "changed", "applied", "on-the-line", "guessed")
}
"""No secret is part of another one."""

CONFIG = f"""\
authenticationEnabled=true
authorizationEnabled=true
authorizationStrictEnabled=true
namesrvAuthEnabled=true
initAuthenticationUser={{"username":"root","password":"{SECRETS["root"]}"}}
innerClientAuthenticationCredentials={{"accessKey":"inner","secretKey":"{SECRETS["inner"]}"}}
"""

WANTED = f"""\
topics: {{Letters: {{readQueueNums: 1, writeQueueNums: 1}}}}
users: {{filed: {{password: "{SECRETS["applied"]}"}}}}
acls:
  User:filed: {{policies: [{{entries: [{{resource: "Topic:Letters", actions: [Pub], decision: Allow}}]}}]}}
"""


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """The files that a user wrote for the programs to read, with their secrets."""
    directory = tmp_path / "given"
    directory.mkdir()
    for name, text in {"server.conf": CONFIG, "wanted.yaml": WANTED, "root": SECRETS["root"]}.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o600)
    return directory


@pytest.fixture
def guarded(given: Path, tmp_path: Path) -> Iterator[Server]:
    with servers.standalone(
        tmp_path / "server", "--config", given / "server.conf", "--test-requests", "on", "--log-level", "debug"
    ) as running:
        yield running


def spellings(secret: str) -> list[bytes]:
    """The secret as it is, and as a body or a header may hold it."""
    plain = secret.encode()
    return [plain, base64.b64encode(plain).rstrip(b"=")[:-1], plain.hex().encode(), secret.encode("utf-16-le")]


def found_in(text: bytes) -> list[str]:
    return [name for name, secret in SECRETS.items() if any(spelled in text for spelled in spellings(secret))]


class Session:
    """Runs command lines and checks that their output holds no secret."""

    def __init__(self, rmqadmin: Rmqadmin, monkeypatch: pytest.MonkeyPatch):
        self._run, self._monkeypatch = rmqadmin, monkeypatch

    def __call__(self, *args: str, status: int | None = 0, stdin: str = "") -> Ran:
        with self._monkeypatch.context() as patch:
            patch.setattr("sys.stdin", io.StringIO(stdin))
            ran = self._run(*args)
        assert status in (None, ran.status), (args, ran.out, ran.err)
        assert found_in((ran.out + ran.err).encode()) == [], args
        return ran


def test_no_secret_is_left_behind(
    run: Rmqadmin, monkeypatch: pytest.MonkeyPatch, given: Path, guarded: Server, tmp_path: Path
) -> None:
    rmqadmin, addr, on = Session(run, monkeypatch), guarded.broker_addr, ("-b", guarded.broker_addr)
    monkeypatch.setenv("RMQ_KEY", "root")
    with all_argv() as processes:
        keys = ("-ak", "env:RMQ_KEY", "-sk", f"file:{given / 'root'}")
        rmqadmin("context", "add", "live", "-n", guarded.namesrv_addr, *keys)
        rmqadmin("context", "use", "live")
        for words in (("ls",), ("show", "live"), ("validate",)):
            rmqadmin("-o", "json", "context", *words)
        rmqadmin("config", "show")

        # Commands that change users and leave a trail.
        rmqadmin("createUser", *on, "-u", "app", "--password-stdin", stdin=SECRETS["piped"] + "\n")
        rmqadmin("updateUser", *on, "-u", "app", "--password-stdin", stdin=SECRETS["changed"] + "\n")
        rmqadmin("createUser", *on, "-u", "typed", "-p", SECRETS["on-the-line"])
        rmqadmin("createAcl", *on, "-s", "User:app", "-r", "Topic:*", "-a", "All", "-d", "Allow")
        rmqadmin("copyUser", "-f", addr, "-t", addr)
        for command in ("diff", "apply"):
            rmqadmin(command, "-f", str(given / "wanted.yaml"), *on, *(["--yes"] * (command == "apply")),
                     status=int(command == "diff"))  # fmt: skip
        rmqadmin("updateBrokerConfig", *on, "-k", "transactionCheckMax", "-v", "16")
        rmqadmin("snapshot", "save", "kept", *on)

        # Commands that show the broker's state, in every format.
        rmqadmin("sendMessage", "-t", "Letters", "-p", "a letter")
        assert "a letter" in rmqadmin("printMsg", "-t", "Letters").out
        for format in Format:
            if format is not Format.MQADMIN:
                for asked in (("listUser", *on), ("getUser", *on, "-u", "app"), ("getBrokerConfig", *on)):
                    rmqadmin(*asked, "--output", format)
        telling: list[tuple[str, ...]] = [
            ("listAcl", *on), ("getNamesrvConfig",), ("exportConfigs", "-c", CLUSTER, "-f", str(tmp_path / "export")),
            ("exportMetadata", "-c", CLUSTER, "-f", str(tmp_path / "export")), ("export", "users", *on),
            ("export", "acls", *on), ("brokerStatus", *on), ("clusterList",), ("audit",), ("-o", "json", "audit"),
        ]  # fmt: skip
        for each in telling:
            rmqadmin(*each)
        rmqadmin("doctor", status=None)  # the status depends on the machine
        rmqadmin("bench", "send", "Letters", "--duration", "0.3", "--warm-up", "0", "--processes", "2", "--yes")

        # Commands that fail, also with --debug, which shows where.
        monkeypatch.setenv("RMQADMIN_ACCESS_KEY", "root")
        monkeypatch.setenv("RMQADMIN_SECRET_KEY", SECRETS["guessed"])
        assert "check signature failed" in rmqadmin("getBrokerConfig", *on, status=4).err
        with_trace = subprocess.run(
            [sys.executable, "-m", "rmqadmin", "--debug", "getBrokerConfig", *on], capture_output=True, check=False
        )
        assert b"Traceback" in with_trace.stderr
        assert found_in(with_trace.stdout + with_trace.stderr) == []
        for name in ("RMQADMIN_ACCESS_KEY", "RMQADMIN_SECRET_KEY"):
            monkeypatch.delenv(name)
        taken = ("createUser", *on, "-u", "app", "--password-stdin")
        rmqadmin("-o", "json", *taken, stdin=SECRETS["piped"], status=1)
        rmqadmin("deleteUser", *on, "-u", "typed", "--yes")

        shown = run("listUser", *on, "--output", "mqadmin").out  # mqadmin's format shows passwords, and was asked for
        assert found_in(shown.encode()) == ["root", "inner", "changed", "applied"]
    assert len(processes) > 3, "the test looked at the list of processes"
    assert [argv for argv in processes if found_in(argv)] == []
    assert guarded.stop() == 0, guarded.log_tail()
    assert "event=refused-request" in guarded.log_file.read_text()
    the_files(tmp_path, given)


def the_files(tmp_path: Path, given: Path) -> None:
    """The broker's user tables hold the secrets it needs. They and all files of the program are readable by the owner
    alone."""
    written = [path for path in tmp_path.rglob("*") if path.is_file() and given not in path.parents]
    tables = [path for path in written if path.name.startswith("auth.json")]
    assert len(tables) > 1, "one in the store, one in the snapshot"
    for path in written:
        assert path in tables or found_in(path.read_bytes()) == [], path
    programs = [path for path in written if tmp_path / "server" not in path.parents and "export" not in path.parts]
    assert {path.name for path in programs} >= {"live.toml"}
    for path in [*tables, *programs]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
