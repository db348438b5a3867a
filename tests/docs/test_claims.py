"""Things that pages name exist: options, commands, settings, metrics, and the methods of the test fixture."""

import re
from functools import cache
from pathlib import Path

from rmqadmin.cli.parsing.command_tree import all_commands, describe, root_options, shared_options
from rmqadmin.cli.registry import Entry, find, group_members
from rmqadmin.core.exit_codes import EXIT_MEANINGS
from rmqadmin.testing.rocketmq import RocketMQ
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.controller_config import ControllerConfig
from rmqserver.config.namesrv_config import NamesrvConfig
from spark_tools.source_options import READ_OPTIONS, STREAM_OPTIONS, WRITE_OPTIONS
from tests.docs.links import CODE_BLOCK
from tests.support.quick import in_one_test

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = {"compatibility-requests.md"}
WRITTEN = [page for page in PAGES if page.name not in GENERATED]

_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)

ALSO_OPTIONS = {"--help", "--top", "--archives", "--conf", "--deploy-mode", "--py-files"}
"""An option of every program, a short form of --topic, and options of spark-submit."""

ALSO_NAMES = {"clientRebalance", "authClient", "foreachBatch"}
"""A field of the protocol, the end of a setting's name, and a method of Spark."""

of_each_page = in_one_test(*WRITTEN)


def code_of(page: Path) -> list[str]:
    return _CODE.findall(page.read_text())


@cache
def source(*folders: str) -> str:
    return "\n".join(path.read_text() for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


@cache
def options() -> set[str]:
    manual = {name for command in all_commands() for option in command.options for name in option.names}
    before = {name for option in root_options() for name in option.names}
    return {*manual, *before, *re.findall(r'"(--[a-z][\w-]*)"', source("rmqserver", "bench")), *ALSO_OPTIONS}


@of_each_page
def test_every_option_of_a_page_is_one(page: Path) -> None:
    named = {name for code in code_of(page) for name in re.findall(r"(?<![\w-])--[a-z][\w-]*", code)}
    assert named - options() == set()


@of_each_page
def test_every_command_of_a_page_is_one(page: Path) -> None:
    for code in code_of(page):
        for words in re.findall(r"^`rmqadmin ([a-z][\w-]*(?: [a-z][\w-]*)?)", code):
            first, _, _ = words.partition(" ")
            assert find(words) or find(first) or (words == first and group_members(first)), words


@of_each_page
def test_every_command_of_a_page_stands_where_tests_look_for_it(page: Path) -> None:
    """No test ran those of indented lines, which markdown shows as a block, too."""
    outside = CODE_BLOCK.sub("", page.read_text())
    assert re.findall(r"^(?: {4,}|\t)(?:rmqadmin|rmqserver|pip|python) .*", outside, re.MULTILINE) == []


def command_lines(page: Path) -> list[str]:
    """The command lines of ``rmqadmin`` that stand on lines of their own, each up to a comment, a pipe or another
    command. Quoted words are ``VALUE``."""
    joined = re.sub(r"\\\n\s*", "", page.read_text())
    found = re.findall(r"^ *(?:\$ )?(?:/\S+/)?(rmqadmin .*)", joined, re.MULTILINE)
    return [re.split(r"[#|;&>]", re.sub(r"'[^']*'|\"[^\"]*\"", "VALUE", line))[0] for line in found]


@cache
def options_of(entry: Entry) -> set[str]:
    return {name for option in describe(entry).options for name in option.names}


@of_each_page
def test_every_option_of_a_command_line_belongs_to_its_command(page: Path) -> None:
    for line in command_lines(page):
        words = re.sub(r"--context \S+", "", line).split()[1:]
        at = next((at for at, word in enumerate(words) if find(word) or group_members(word)), len(words))
        entry = find(" ".join(words[at : at + 2])) or find(" ".join(words[at : at + 1]))
        if entry is not None:
            taken = {*options_of(entry), "-h", "--help"}
            given = {word.partition("=")[0] for word in words[at + 1 :] if re.match(r"--?[a-zA-Z]", word)}
            assert given <= taken, line


@cache
def keys() -> set[str]:
    """All settings: Apache's, and those that its servers do not have."""
    own = re.findall(r'"([a-z]+[A-Z]\w*)"', source("rmqserver"))
    return {key for kind in (BrokerConfig, NamesrvConfig, ControllerConfig) for key in kind().kinds} | set(own)


@of_each_page
def test_every_command_and_setting_that_a_page_names_alone_is_one(page: Path) -> None:
    """Words like `updateTopic` and `flushDiskType`; on Spark's page its options and columns."""
    columns = set(re.findall(r'"(\w+)"', source("spark_tools"))) if page.name.startswith("spark") else set()
    words = {word for code in code_of(page) for word in re.findall(r"^`([a-z]+[A-Z]\w*)", code)}
    assert {word for word in words if find(word) is None} - {*keys(), *columns, *ALSO_NAMES} == set()


@of_each_page
def test_every_option_of_a_spark_chain_is_one_that_reads_or_writes(page: Path) -> None:
    """``topic``, which only writes have, stood where a topic was read."""
    for kind, chain in re.findall(
        r"\.(read|write)(?:Stream)?\.format\(.rocketmq.\)((?:\s*\.\w+\([^()]*\))*)", page.read_text()
    ):
        given = set(re.findall(r"\.option\(\s*.(\w+)", chain))
        assert given <= {*(READ_OPTIONS + STREAM_OPTIONS if kind == "read" else WRITE_OPTIONS)}, chain


def test_every_metric_of_the_page_is_made_and_the_other_way_round() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    named = set(re.findall(r"`(rocketmq_\w+|rmqserver_\w+)`", page))
    assert named == set(re.findall(r'"(rocketmq_\w+|rmqserver_\w+)"', source("rmqserver/metrics")))


def test_the_page_of_the_fixture_has_all_that_it_can_do() -> None:
    page = (ROOT / "docs/testing.md").read_text()
    table = page.partition("| on `rocketmq` |")[2].partition("\n\n")[0]
    named = {name for cell in re.findall(r"^\| (.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)", cell)}
    attributes = {"namesrv_addr", "broker_addr", "broker_addrs", "admin"}
    can = {name for name in dir(RocketMQ) if not name.startswith("_")} | attributes
    assert named == can


def test_every_test_that_a_page_names_is_in_the_file_that_it_links_to() -> None:
    named = [(page, *found) for page in WRITTEN for found in re.findall(r"\[`(test_\w+)`\]\((.+?)\)", page.read_text())]
    assert len(named) > 20
    missing = [(name, path) for page, name, path in named if f"def {name}(" not in (page.parent / path).read_text()]
    assert missing == []


def test_each_cell_of_what_a_producer_was_told_has_its_test() -> None:
    section = (
        (ROOT / "docs/durability-answers.md")
        .read_text()
        .partition("## What a producer was told")[2]
        .partition("\n## ")[0]
    )
    rows = [[cell.strip() for cell in row.split("|")] for row in re.findall(r"^\| *(.+?) *\|$", section, re.MULTILINE)]
    half = len(rows) // 2
    said, shown = rows[2:half], rows[half + 2 :]
    assert [row[0] for row in said] == [row[0] for row in shown]
    assert [len(row) for row in said] == [4] * 7
    assert all("[`test_" in cell for row in shown for cell in row[1:])


def test_the_page_of_all_commands_names_every_shared_option_and_exit_status() -> None:
    page = (ROOT / "docs/commands.md").read_text()
    code = " ".join(code_of(ROOT / "docs/commands.md"))
    options = {name for option in (*shared_options(all_commands()), *root_options()) for name in option.names}
    assert {name for name in options if not re.search(rf"(?<![\w-]){name}(?![\w-])", code)} == set()
    assert [f"| {code.value} | {meaning} |" for code, meaning in EXIT_MEANINGS.items()] == re.findall(
        r"^\| \d+ \|.*", page, re.MULTILINE
    )
