"""The program's version. A test holds it equal to the distribution's, which is slow to look up."""

import sys

VERSION = "0.1.0"


PIPE_CLOSED = 141
"""128 + SIGPIPE: the status that a shell gives a program that wrote to a closed pipe."""


def write_problem(error: OSError) -> str:
    """Which output could not be written, and why. An error of writing that names no file is standard output's: whoever
    writes another names it."""
    from errno import EBADF, EDQUOT, EFBIG, EIO, ENOSPC

    if error.errno == EBADF:
        return "standard output is closed"
    is_output = error.errno in (ENOSPC, EDQUOT, EFBIG, EIO)
    name = error.filename or ("cannot write standard output" if is_output else None)
    return ": ".join(str(part) for part in (name, error.strerror or error) if part)


def print_version() -> int:
    """Prints the version; the exit status. Errors are reported, or not, as for every command."""
    try:
        sys.stdout.write(f"rmqadmin {VERSION}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        return PIPE_CLOSED
    except OSError as error:
        sys.stderr.write(f"rmqadmin: error: {write_problem(error)}\n")
        return 1
    return 0
