"""The console script ``rmqserver``. It imports nothing before Ctrl-C ends the process without a traceback; once the
server starts, SIGINT ends it cleanly."""

INTERRUPTED = 130
"""As a shell shows a process that SIGINT has ended."""


def main() -> int:
    try:
        import signal  # 2 ms, in which Python still raises KeyboardInterrupt

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it is ignored under nohup, and stays so
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    except KeyboardInterrupt:
        return INTERRUPTED
    from rmqserver.program import run

    return run()


if __name__ == "__main__":
    import sys

    sys.exit(main())
