NAMES_MAX: int

def record_values(
    data: bytes, starts: list[int], sizes: tuple[int, ...], names: tuple[bytes, ...]
) -> list[tuple[bytes | None, ...] | None]: ...
