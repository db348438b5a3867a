"""Ctrl-C while a command line starts, and while its process ends: nothing is printed, and the status is 130."""

import subprocess
import sys

import pytest

from rmqadmin.core.exit_codes import ExitCode

INTERRUPT = "os.kill(os.getpid(), signal.SIGINT)"


def interrupted_at(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command line that gets SIGINT when it imports the module."""
    script = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        f"            {INTERRUPT}\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        f"sys.argv = ['rmqadmin', *{list(words)!r}]\n"
        "from rmqadmin.__main__ import main\n"
        "main()\n"
    )
    return run(script)


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


PLAIN = ["topicList", "-n", "127.0.0.1:1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("rmqadmin.cli.interrupts", PLAIN),
        ("msgspec", PLAIN),
        ("typer", PLAIN),
        ("rmqadmin.cli.program", PLAIN),
        ("rmqadmin.commands.topic.topic_lists", PLAIN),
        ("rmqclient.admin", PLAIN),
        ("rmqadmin.cli.failures", PLAIN),
        ("typer", ["--help"]),
        ("rmqadmin.cli.registry", ["topicList", "--help"]),
        ("rmqadmin.version", ["--version"]),
        ("rmqadmin.cli.prompt.command_lines", ["shell", "-c", "explain 1"]),
        ("rmqadmin.commands.tui", ["tui"]),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_an_interrupted_import_is_silent(module: str, words: list[str]) -> None:
    done = interrupted_at(module, *words)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (ExitCode.INTERRUPTED, "", "")


def test_an_interrupt_where_python_cannot_raise_is_not_lost() -> None:
    """As in the callbacks of its imports: Python prints a traceback there, and goes on."""
    done = run(
        "import os, signal, sys\n"
        f"class Part:\n    def __del__(self): {INTERRUPT}\n"
        "sys.argv = ['rmqadmin', '--version']\n"
        "import rmqadmin.version\n"
        "def print_version():\n    Part()\n    print('went on')\n    return 0\n"
        "rmqadmin.version.print_version = print_version\n"
        "from rmqadmin.__main__ import main\n"
        "main()\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INTERRUPTED, "", "")


def test_an_interrupt_at_the_end_ends_the_wait_for_threads() -> None:
    """More than one, as a user presses: one that comes just before Python begins to wait does not end the wait."""
    done = run(
        "import os, signal, sys, threading\n"
        "def work():\n"
        "    threading.main_thread().join()\n"
        "    while True:\n"
        f"        {INTERRUPT}\n"
        "        threading.Event().wait(0.1)\n"
        "threading.Thread(target=work).start()\n"
        "sys.argv = ['rmqadmin', 'explain', '1']\n"
        "from rmqadmin.__main__ import main\n"
        "main()\n"
    )
    assert (done.returncode, done.stderr) == (ExitCode.INTERRUPTED, "")


def test_a_program_that_is_to_ignore_ctrl_c_does_so_from_its_start() -> None:
    """A shell starts the programs of ``script &`` like this."""
    done = subprocess.run(
        ["sh", "-c", f"trap '' INT; exec {sys.executable} -c \"$0\"", "import os, signal, sys\n"
         "sys.argv = ['rmqadmin', 'explain', '17']\n"
         "from rmqadmin.__main__ import main\n"
         f"import rmqadmin.cli.interrupts as it\nend = it.end_at_once\n"
         f"it.end_at_once = lambda: (end(), {INTERRUPT})\n"
         "main()\n"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert "TOPIC_NOT_EXIST" in done.stdout
