FIELDS_MAX: int
BODY_MAX_BYTES: int

def cut(
    keys: tuple[bytes, ...],
    order: bytes,
    known: tuple[bytes | None, ...],
    access_key_at: int,
    header: bytes,
    body: bytes,
) -> tuple[bytes, bytes, bool] | None: ...
