"""The console script ``rmqadmin``. Everything is imported inside ``main``: Ctrl-C during an import ends it silently,
too."""

import os
import sys

INTERRUPTED = 130
"""``ExitCode.INTERRUPTED``, which is not loaded yet."""


def main() -> None:
    sys.unraisablehook = end_if_interrupted
    try:
        run()
    except KeyboardInterrupt:  # while it starts or ends: nothing has begun, or all is done
        os._exit(INTERRUPTED)


def end_if_interrupted(unraisable: "sys.UnraisableHookArgs") -> None:
    """Ends the process if Ctrl-C came where Python cannot raise an exception, as in a callback of its imports. By
    default it prints a traceback and goes on. ``cli.interrupts`` takes over once it is there."""
    if unraisable.exc_type is KeyboardInterrupt:
        os._exit(INTERRUPTED)
    sys.__unraisablehook__(unraisable)


def run() -> None:
    import atexit
    import gc

    open_closed_streams()
    write_any_name(sys.stdout)
    # Objects that modules make while they load are never garbage. Not collecting them, then or at exit, saves 10 of 100
    # ms. Objects that a command makes are collected as usual.
    gc.disable()
    ending = QuickEnding()
    atexit.register(ending)  # first, so it is called last
    from rmqadmin.cli import interrupts

    interrupts.end_at_once()
    sys.unraisablehook = interrupts.not_raised
    from rmqadmin.cli import program

    gc.freeze()
    gc.enable()
    ending.status = program.run(sys.argv[1:])
    interrupts.end_at_once()
    sys.exit(ending.status)


def open_closed_streams() -> None:
    """Gives the process the standard streams that the program that started it has closed: nothing to read, errors that
    nobody sees, and a standard output that fails when it is written, as a full disk does."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - open for all its life
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def write_any_name(out: object) -> None:
    """Makes ``out`` accept names and bodies in any script. In a locale that is not UTF-8, a terminal shows a question
    mark for characters it lacks. Output elsewhere is UTF-8 in every locale, as JSON is."""
    from io import TextIOWrapper

    if isinstance(out, TextIOWrapper) and out.encoding.lower() != "utf-8":
        if out.isatty():
            out.reconfigure(errors="replace")
        else:
            out.reconfigure(encoding="utf-8")


class QuickEnding:
    """Ends the process after all threads have ended and all exit handlers have run. It only skips the teardown of
    modules."""

    status: int | None = None
    """None: the interpreter decides how the program ends."""

    def __call__(self) -> None:
        if self.status is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except BrokenPipeError:  # whoever read the help has seen enough
            from rmqadmin.version import PIPE_CLOSED

            os._exit(self.status or PIPE_CLOSED)
        except OSError as error:  # for example, a full disk: what a short output waited for is lost
            from rmqadmin.version import write_problem

            if not self.status:
                os.write(2, f"rmqadmin: error: {write_problem(error)}\n".encode())
            os._exit(self.status or 1)
        from rmqadmin.cli import interrupts  # loaded, since a command line has been run

        interrupts.end_as_told()
        os._exit(self.status)


if __name__ == "__main__":
    main()
