"""Environment variables as options of ``rmqserver``."""

import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version

import pytest

from rmqserver import core
from rmqserver.environment import EnvironmentParser
from rmqserver.program import _parser, run
from rmqserver.version import VERSION


def parsed(*argv: str, environment: Mapping[str, str]) -> dict[str, object]:
    return vars(_parser().parse(argv, environment))


def test_a_variable_stands_for_its_flag() -> None:
    found = parsed(
        "standalone",
        environment={
            "RMQSERVER_PORT": "0",
            "RMQSERVER_NAMESRV_PORT": "1",
            "RMQSERVER_FLUSH": "sync",
            "RMQSERVER_READY_FILE": "-ready",
            "RMQSERVER_SET": "messageDelayLevel=1s 5s\nbrokerName=a",
        },
    )
    assert (found["port"], found["namesrv_port"], found["flush"], found["ready_file"]) == (0, 1, "sync", "-ready")
    assert found["settings"] == ["messageDelayLevel=1s 5s", "brokerName=a"]


def test_the_flag_wins() -> None:
    environment = {"RMQSERVER_PORT": "1", "RMQSERVER_SET": "brokerName=a"}
    found = parsed("broker", "--port", "2", "--set", "brokerName=b", environment=environment)
    assert (found["port"], found["settings"]) == (2, ["brokerName=a", "brokerName=b"])  # the last value counts


def test_what_a_command_does_not_have_and_what_is_empty_says_nothing() -> None:
    found = parsed("namesrv", environment={"RMQSERVER_FLUSH": "sync", "RMQSERVER_PORT": "", "RMQSERVER_DATA": " "})
    assert (found["port"], found["data"]) == (None, None)


@pytest.mark.parametrize("option", ["--data", "--listen", "--advertise", "--namesrv", "--config", "--seed"])
@pytest.mark.parametrize("value", ["", " "])
def test_an_option_without_a_value_is_refused(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``--data "$DIR"`` without such a variable served a temporary store, which is removed at the end."""
    with pytest.raises(SystemExit) as stop:
        parsed("broker", option, value, environment={})
    assert stop.value.code == 2
    assert f"argument {option}: it has no value" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("RMQSERVER_PORT", "tcp://10.0.0.1:10911", "is not a port"),  # as Kubernetes sets it for a service of that name
        ("RMQSERVER_FLUSH", "never", "sync, async"),
    ],
)
def test_an_error_names_the_variable(variable: str, value: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parsed("standalone", environment={variable: value})
    assert stop.value.code == 2
    text = capsys.readouterr().err
    assert f"{variable}: {value}" in text
    assert words in text


@pytest.mark.parametrize("command", ["standalone", "namesrv", "broker"])
def test_help_names_the_variable_of_every_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(command, "--help", environment={})
    text = capsys.readouterr().out
    assert text.count("\n  --") == text.count("[RMQSERVER_")
    assert "[RMQSERVER_LOG_LEVEL]" in text


def test_the_version_is_the_distributions_and_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from rmqserver.program import run\n"
        "try:\n    run(['--version'])\nexcept SystemExit:\n    print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"rmqserver {VERSION}\n"
    assert version("rmqadmin") == VERSION
    assert not set(done.stderr.split()) & {"trio", "msgspec", "socket", "logging"}


def test_a_report_of_a_fault_can_say_which_core_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version", "--verbose"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [f"rmqserver {VERSION}", f"core: {core.NAME}"]


def test_a_switch_is_true_or_false(capsys: pytest.CaptureFixture[str]) -> None:
    parser = EnvironmentParser(prog="p")
    parser.add_command("go", "goes").add_argument("--allow-unknown", action="store_true", help="starts")
    for text, is_on in (("true", True), ("TRUE", True), ("false", False), ("", False)):
        assert parser.parse(["go"], {"RMQSERVER_ALLOW_UNKNOWN": text}).allow_unknown is is_on
    with pytest.raises(SystemExit):
        parser.parse(["go"], {"RMQSERVER_ALLOW_UNKNOWN": "perhaps"})
    assert "RMQSERVER_ALLOW_UNKNOWN: perhaps is neither true nor false" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("standalone –data x", "–data begins with en dash (U+2013), not with an ASCII minus"),
        ("broker −−namesrv x", "−−namesrv begins with minus sign (U+2212), not with an ASCII minus"),
        ("namesrv --po‑rt 1", "--po‑rt has non-breaking hyphen (U+2011) where - or a blank was meant"),
        ("completion —install", "—install begins with em dash (U+2014)"),
        ("–h", "–h begins with en dash (U+2013)"),
    ],
)
def test_a_pasted_dash_is_named(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*line.split(), environment={})
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_value_may_begin_with_any_dash() -> None:
    assert parsed("standalone", "--data", "–x", environment={})["data"] == "–x"
