"""Which typed lines the history keeps, and which it does not."""

import stat
from pathlib import Path

from rmqadmin.cli import registry
from rmqadmin.cli.parsing.command_building import build_command
from rmqadmin.cli.parsing.registry_command import RegistryCommand
from rmqadmin.cli.prompt.interactive import LINES_MAX, CommandHistory, holds_secret
from tests.support.quick import in_one_test


def build(name: str) -> RegistryCommand:
    entry = registry.find(name)
    assert entry is not None
    return build_command(entry)


@in_one_test(
    "topicList -sk hunter2",
    "topicList -ak me -skhunter2",
    "topicList --secret-key=hunter2",
    "topicList --secret-k hunter2",
    "TOPICLIST -secret-key hunter2 | head",
    "-o json topicList -sk hunter2",
    "rmqadmin createUser -c C -u a -p hunter2",
    "createuser -c C -u a -phunter2",
    "updateUser -b h:1 -u a --pass=hunter2",
    "createUser -c C -u a -p 'hunter2",  # the quote is open
    "createUser -c C --nosuch -p hunter2",
    "creatUser -c C -u a -p hunter2",
    "context add live -n h:1 -sk hunter2",
    """updateBrokerConfig -c C -k initAuthenticationUser -v '{"username":"root","password":"hunter2"}'""",
    "! export PASSWORD=hunter2",
    "topicList | curl -H 'Token: hunter2' h",
)
def test_a_line_with_a_secret_is_recognised_however_it_is_written(line: str) -> None:
    assert holds_secret(line, build)


@in_one_test(
    "topicList",
    "topicStatus -t password-resets",
    "sendMessage -t T -p body",
    "printMsgByQueue -t T -a broker-a -i 0 -p true | head",
    "updateBrokerConfig -c C -k traceOn -v true",
    "context add live -n h:1 --protected",
    "createUser --help",
    "! ls",
    "nosuch",
)
def test_other_lines_are_kept(line: str) -> None:
    assert not holds_secret(line, build)


def history(path: Path) -> CommandHistory:
    return CommandHistory(lambda line: "hunter2" in line, path)


def test_lines_are_kept_for_the_owner_alone_the_newest_first(tmp_path: Path) -> None:
    path = tmp_path / "new" / "history"
    for line in ("topicList", "-sk hunter2", " not this", "clusterList", "two\nlines", "ä '", "  "):
        history(path).store_string(line)
    assert list(history(path).load_history_strings()) == ["ä '", "lines", "two", "clusterList", "topicList"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    history(path).store_string("more")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_secret_stays_in_the_memory_of_its_shell(tmp_path: Path) -> None:
    used = history(tmp_path / "history")
    used.append_string("-sk hunter2")
    assert used.get_strings() == ["-sk hunter2"]
    assert not (tmp_path / "history").exists()


def test_the_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("".join(f"line {number}\n" for number in range(2 * LINES_MAX + 1)))
    found = list(history(path).load_history_strings())
    assert (len(found), found[0]) == (LINES_MAX, f"line {2 * LINES_MAX}")
    assert len(path.read_text().splitlines()) == LINES_MAX


def test_without_a_place_for_it_there_is_no_history(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    nowhere = history(tmp_path / "file" / "history")
    nowhere.store_string("topicList")
    assert list(nowhere.load_history_strings()) == []


def test_every_option_for_a_password_or_a_secret_is_marked() -> None:
    for entry in registry.ENTRIES:
        command = build_command(entry)
        options = [
            param
            for param in command.params
            if param.param_type_name == "option" and not getattr(param, "is_flag", False)
        ]
        names = {option.opts[-1] for option in options}
        telling = {name for name in names if any(part in name.lower() for part in ("password", "secret", "token"))}
        assert telling <= command.secret_options, entry.name
