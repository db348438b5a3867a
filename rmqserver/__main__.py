"""The console script ``rmqserver``. It imports nothing before Ctrl-C ends the process without a traceback; once the
server starts, SIGINT ends it cleanly."""


def main() -> int:
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it is ignored under nohup, and stays so
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rmqserver.program import run

    return run()


if __name__ == "__main__":
    import sys

    sys.exit(main())
