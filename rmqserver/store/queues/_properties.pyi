from collections.abc import Callable

NAMES_MAX: int

def take_wanted(
    data: bytes,
    units: bytes,
    base: int,
    names: tuple[bytes, ...],
    accepts: Callable[..., bool],
    records: list[bytes],
    count_max: int,
) -> int: ...
