"""``python -m tests.simulation --seed N``: one history, to read. ``--seeds N``: so many, from ``--seed`` on."""

import argparse
import sys
import time
import traceback

from tests.simulation.ledger import Violation
from tests.simulation.simulation import Simulation


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=0, help="run so many, and show the first that fails")
    parser.add_argument("--controllers", type=int, default=1, help="several stand behind one etcd")
    options = parser.parse_args()

    def simulation(seed: int, *, is_recorded: bool = False) -> Simulation:
        return Simulation(seed, controllers=options.controllers, is_recorded=is_recorded)

    if not options.seeds:
        return replay(options.seed, simulation(options.seed, is_recorded=True))
    started_s = time.process_time()
    for seed in range(options.seed, options.seed + options.seeds):
        try:
            simulation(seed).check()
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {error}")
            return 1
    took_s = time.process_time() - started_s
    print(f"{options.seeds} seeds in {took_s:.1f} s of processor time: {options.seeds / took_s * 60:,.0f} a minute")
    return 0


def replay(seed: int, run: Simulation) -> int:
    failure: Exception | None = None
    try:
        run.check()
    except Exception as error:
        failure = error
    assert run.world.lines is not None
    print("\n".join(run.world.lines))
    if failure is None:
        print(f"seed {seed}: {len(run.ledger.acknowledged)} messages acknowledged, all of them are there")
        return 0
    if not isinstance(failure, Violation):
        traceback.print_exception(failure)
    print(f"seed {seed}: {type(failure).__name__}: {failure}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
