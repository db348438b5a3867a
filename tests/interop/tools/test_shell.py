"""``rmqadmin shell`` on both systems: its lines share connections, and it knows the names of the live cluster."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqadmin.cli.call import Call
from rmqadmin.cli.invocation import Invocation
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.prompt.candidates import offer
from rmqadmin.cli.prompt.command_lines import CommandLines
from rmqadmin.cli.prompt.live_names import LiveNames
from tests.interop.cluster import Cluster
from tests.support.servers import until

pytestmark = pytest.mark.interop


def test_lines_and_names(
    cluster: Cluster,
    fresh: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    topic, group = fresh("ShellTopic"), fresh("ShellGroup")
    options = CommonOptions(namesrv_addr=cluster.namesrv_addr)
    with Call("shell", options, Format.TABLE).shell_session() as session:
        commands = CommandLines(Invocation(session=session))
        for line in (
            f"updateTopic -c DefaultCluster -t {topic} -r 1 -w 1",
            f"updateSubGroup -c DefaultCluster -g {group}",
            f"sendMessage -t {topic} -p hello",
            "topicList | cat",
            "consumerProgress",
        ):
            assert commands.run(line) == 0, capfd.readouterr().err

        def complete(text: str) -> list[str]:
            return [each.text for each in offer(text, LiveNames(session).of).candidates]

        until(lambda: complete(f"topicStatus -t {topic}") == [topic])
        assert complete(f"consumerProgress -g {group}") == [group]
        assert complete("wipeWritePerm -b ") == ["broker-a"]
        assert "traceOn" in complete("updateBrokerConfig -k trace")
        assert "listenPort" in complete("updateNamesrvConfig -k listen")
        capfd.readouterr()
        assert commands.run(f"topicStatus -t {topic}") == 0
        assert "Messages: 1\n" in capfd.readouterr().out
