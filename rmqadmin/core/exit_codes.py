"""The exit statuses of the program and their meanings. ``diagnostics`` says which error gets which."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The program's exit statuses; ``docs/commands.md`` prints this table."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    CANNOT_CONNECT = 3
    NO_PERMISSION = 4
    NOT_FOUND = 5
    TIMED_OUT = 6
    DAMAGED = 7
    INTERRUPTED = 130


EXIT_MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.REFUSED: "refused by a server, or done on some brokers but not on all; with diff: there are differences",
    ExitCode.USAGE: "the command line or a setting is wrong; with diff: a server refused to answer",
    ExitCode.CANNOT_CONNECT: "no connection could be made, or it broke",
    ExitCode.NO_PERMISSION: "not permitted: the server says so, or the context is read-only",
    ExitCode.NOT_FOUND: "the topic, group, user, message or key does not exist",
    ExitCode.TIMED_OUT: "no answer in time; whether a change was carried out is unknown",
    ExitCode.DAMAGED: "the store that was checked is damaged",
    ExitCode.INTERRUPTED: "ended by Ctrl-C",
}
