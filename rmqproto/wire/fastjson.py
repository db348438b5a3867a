"""Reads and writes fastjson's JSON dialect, in which Apache's brokers, name servers and clients write bodies and
headers.

In addition to standard JSON it has integer map keys without quotes (``{0:"host:port"}``) and maps whose keys are
objects (``{{"brokerName":"b","queueId":0,"topic":"T"}:5}``). Reading tries msgspec first, which is C and strict, and
falls back to the lenient parser here. Writing is always compact: the Go client cuts some bodies up by hand (one space
after a colon is enough to break it).

Odd keys are common in the answers that a dashboard asks for all the time. They are first put in quotes, so that msgspec
reads the result.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar, get_args, get_type_hints

import msgspec

from rmqproto.errors import ProtocolError
from rmqproto.wire.whole_types import whole

NESTING_DEPTH_MAX = 64
"""The deepest body of any real peer has 6 levels. The parser recurses once per level."""

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class ObjectMap(dict[K, V], Generic[K, V]):
    """A map whose keys are JSON objects; ``K`` is a frozen Struct. Fields annotated with it, such as
    ``ObjectMap[MessageQueue, int]``, are read and written so."""


class Pairs(list[tuple[Any, Any]]):
    """A map with object keys as the lenient parser returns it, before its type is known."""


def loads_untrusted(data: bytes | bytearray | memoryview | str, type: type[T]) -> T:
    """``data`` as ``type``: numbers and booleans may be quoted, unknown members are ignored.

    ProtocolError for anything but JSON in fastjson's dialect, and for a member of the wrong type.
    """
    whole(type)
    for is_odd in (False, True):
        try:
            standard = _with_quoted_keys(data) if is_odd else data
            return msgspec.json.decode(standard, type=type, strict=False, dec_hook=_object_map_hook)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            pass  # not strict JSON, or a real error: the lenient parser decides
    value = parse_untrusted(data)
    try:
        return msgspec.convert(value, type, strict=False, str_keys=True, dec_hook=_object_map_hook)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"JSON body: {_in_json_words(error)}") from None


_JSON_WORDS = {"`str`": "`text`", "`int`": "`number`", "`float`": "`number`", "`bool`": "`boolean`"}


def _in_json_words(error: msgspec.ValidationError) -> str:
    """The error's text without the names of Python's types: it is answered to clients in any language."""
    return re.sub(r"`(?:str|int|float|bool)`", lambda name: _JSON_WORDS[name[0]], str(error))


_ODD_KEY = rb'(?<=[{,])(?:\{"[^{}]*\}|-?\d+)(?=:)'


def _with_quoted_keys(data: bytes | bytearray | memoryview | str) -> bytes:
    """The data with its odd keys, flat objects and integers, in quotes; it is standard JSON if nothing else was odd.
    Text that only looks like a key gets a quote that ends its string early, so msgspec refuses the result."""
    return re.sub(_ODD_KEY, _quoted, data.encode() if isinstance(data, str) else data)


def _quoted(key: re.Match[bytes]) -> bytes:
    return b'"' + key[0].replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def _object_map_hook(type: type[Any], value: Any) -> Any:
    key_type, value_type = get_args(type)
    if isinstance(value, dict) and not any("$ref" in key for key in value):
        try:
            by_text: Any = dict.__class_getitem__((str, value_type))
            items = msgspec.convert(value, whole(by_text), strict=False, str_keys=True, dec_hook=_object_map_hook)
            return ObjectMap((_key_decoder(key_type).decode(key), item) for key, item in items.items())
        except msgspec.MsgspecError:
            pass  # a key is not JSON either: continue below
    if isinstance(value, Pairs):
        pairs: Iterator[tuple[Any, Any]] = iter(value)
    elif isinstance(value, dict):  # empty, or keys that are objects inside quotes
        pairs = ((parse_untrusted(key) if isinstance(key, str) else key, item) for key, item in value.items())
    else:
        raise ValueError("a map with object keys is needed")

    def convert(item: Any, wanted: Any) -> Any:
        return msgspec.convert(item, whole(wanted), strict=False, str_keys=True, dec_hook=_object_map_hook)

    # A key may be a reference to another map's key ({"$ref":…}, up to 5.3.3). It cannot be followed, so it is left out.
    return ObjectMap(
        (convert(key, key_type), convert(item, value_type))
        for key, item in pairs
        if not (isinstance(key, dict) and "$ref" in key)
    )


@functools.cache
def _key_decoder(key_type: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(whole(key_type), strict=False)


# --- reading ---------------------------------------------------------------------------------------------------------

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER_KEY = re.compile(rb"(?<=[{,\s])-?\d+(?=:)")
_BARE_WORD = re.compile(r"[-+.$\w]+")
_PLAIN = {"double": re.compile(r'[^"\\]*'), "single": re.compile(r"[^'\\]*")}
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}


def parse_untrusted(data: bytes | bytearray | memoryview | str) -> Any:
    """The parsed value: dicts (keys always text), lists, text, numbers, booleans, None, and ``Pairs`` for maps with
    object keys. ProtocolError, with the character's position, for anything else."""
    if not isinstance(data, str):
        try:
            data = str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolError(f"JSON is not UTF-8 at byte {error.start}") from None
    return _Parser(data.removeprefix("\ufeff")).document()


def parse_large_untrusted(data: bytes) -> Any:
    """As ``parse_untrusted``, but by msgspec if the data is standard JSON once number keys have quotes, as all tables
    that brokers write. For tens of thousands of topics the parser here takes seconds, and a member of a set reads them
    anew at each change of its role."""
    try:
        return msgspec.json.decode(_NUMBER_KEY.sub(_quoted, data))
    except (msgspec.MsgspecError, RecursionError, UnicodeError):  # text that looked like a key among them
        return parse_untrusted(data)


class _Parser:
    """One pass over one text; ``at`` is the position of the next character."""

    def __init__(self, text: str):
        self.text = text
        self.at = 0

    def document(self) -> Any:
        value = self.value(NESTING_DEPTH_MAX)
        if self.peek():
            raise self.error("text after the end")
        return value

    def error(self, what: str) -> ProtocolError:
        return ProtocolError(f"JSON at character {self.at}: {what}")

    def peek(self) -> str:
        """The next character that is not white space, without consuming it. Empty at the end."""
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]  # matches empty text too
        return self.text[self.at : self.at + 1]

    def expect(self, character: str) -> None:
        if self.peek() != character:
            raise self.error(f"{character!r} is needed")
        self.at += 1

    def value(self, depth: int) -> Any:
        if depth == 0:
            raise self.error(f"nested deeper than {NESTING_DEPTH_MAX} levels")
        first = self.peek()
        if first == "{":
            return self.map(depth - 1)
        if first == "[":
            return self.list(depth - 1)
        if first in ('"', "'"):
            return self.string()
        return self.word()

    def map(self, depth: int) -> Any:
        self.expect("{")
        members: dict[str, Any] = {}
        pairs = Pairs()
        while self.peek() != "}":
            key = self.value(depth) if self.peek() in ("{", "[") else self.key()
            self.expect(":")
            item = self.value(depth)
            if isinstance(key, str):
                members[key] = item
            else:
                pairs.append((key, item))
            if self.peek() != ",":
                break
            self.at += 1
        self.expect("}")
        return pairs if pairs else members

    def key(self) -> str:
        if self.peek() in ('"', "'"):
            return self.string()
        found = _BARE_WORD.match(self.text, self.at)
        if not found:
            raise self.error("a member's name is needed")
        self.at = found.end()
        return found.group()

    def list(self, depth: int) -> list[Any]:
        self.expect("[")
        items = []
        while self.peek() != "]":
            items.append(self.value(depth))
            if self.peek() != ",":
                break
            self.at += 1
        self.expect("]")
        return items

    def string(self) -> str:
        quote = self.text[self.at]
        plain = _PLAIN["double" if quote == '"' else "single"]
        self.at += 1
        parts = []
        while True:
            run = plain.match(self.text, self.at)
            assert run is not None
            parts.append(run.group())
            self.at = run.end()
            if self.at >= len(self.text):
                raise self.error("text without its closing quote")
            if self.text[self.at] == quote:
                self.at += 1
                # Surrogates may be escaped one by one; a single one cannot be UTF-8 and becomes a mark (U+FFFD).
                return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            parts.append(self.escape())

    def escape(self) -> str:
        letter = self.text[self.at + 1 : self.at + 2]
        if letter == "u":
            digits = self.text[self.at + 2 : self.at + 6]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise self.error("\\u needs four hex digits")
            self.at += 6
            return chr(int(digits, 16))
        if letter not in _ESCAPES:
            raise self.error(f"unknown escape \\{letter}")
        self.at += 2
        return _ESCAPES[letter]

    def word(self) -> Any:
        found = _BARE_WORD.match(self.text, self.at)
        if not found:
            raise self.error("a value is needed")
        word = found.group()
        if word in _WORDS:
            self.at = found.end()
            return _WORDS[word]
        import json  # 1 ms, not needed for standard JSON

        try:
            number = json.loads(word)
        except ValueError:  # includes a number past the interpreter's limit of digits
            raise self.error(f"{word[:40]!r} is not a value") from None
        self.at = found.end()
        return number


# --- writing ---------------------------------------------------------------------------------------------------------

LARGE_COUNT = 100
"""Maps with fewer entries are not looked at for a quicker way."""

_WORD_TEXTS = {None: "null", False: "false", True: "true"}


def dumps(value: Any, *, standard: bool = False) -> bytes:
    """Compact JSON of Structs, dicts, lists and scalars; None members are left out, as fastjson does.

    Integer keys are written without quotes and object keys as objects. With ``standard`` integer keys are quoted and
    text is ASCII, as in Apache's route answer for newer clients.
    """
    as_ascii, as_it_stands = _text_writers()
    return _write(value, as_ascii if standard else as_it_stands, standard).encode()


@functools.cache
def _text_writers() -> tuple[Callable[[str], str], Callable[[str], str]]:
    """Two functions that put text in quotes: as ASCII, and unchanged."""
    from json.encoder import encode_basestring, encode_basestring_ascii  # 1 ms, not needed for reading

    return encode_basestring_ascii, encode_basestring


def _write(value: Any, text: Callable[[str], str], quoted_keys: bool) -> str:
    kind = value.__class__  # one case per type, the frequent ones first
    if kind is str:
        return text(value)
    if kind is int:
        return str(value)
    if kind is list and set(map(type, value)) == {int}:
        try:
            return msgspec.json.encode(value).decode()  # in a tenth of the time
        except OverflowError:  # more than 64 bits
            return "[" + ",".join(map(str, value)) + "]"
    if isinstance(value, msgspec.Struct):
        members = [
            name + (str(item) if item.__class__ is int else _write(item, text, quoted_keys))
            for name, field in _members(kind)
            if (item := getattr(value, field)) is not None
        ]
        return "{" + ",".join(members) + "}"
    match value:
        case None | bool():
            return _WORD_TEXTS[value]
        case str():
            return text(str(value))
        case int():
            return str(int(value))
        case float():
            return repr(value)
        case dict():
            return _write_map(value, text, quoted_keys)
        case list() | tuple() | set() | frozenset():
            return "[" + ",".join([_write(item, text, quoted_keys) for item in value]) + "]"
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _write_map(value: dict[Any, Any], text: Callable[[str], str], quoted_keys: bool) -> str:
    if not quoted_keys and len(value) >= LARGE_COUNT and _is_standard_map(value):
        return msgspec.json.encode(value).decode()
    entries = [
        f"{_key(key, text, quoted_keys)}:{_write(item, text, quoted_keys)}"
        for key, item in value.items()
        if item is not None
    ]
    return "{" + ",".join(entries) + "}"


def _is_standard_map(value: dict[Any, Any]) -> bool:
    """Whether msgspec writes the same: text as keys, and Structs of one class, whose members can only be text, numbers
    and maps of text. It takes a twentieth of the time, and a broker tells all its topics again and again."""
    kinds = set(map(type, value.values()))
    return set(map(type, value)) == {str} and len(kinds) == 1 and _is_standard(kinds.pop())


@functools.cache
def _is_standard(cls: type) -> bool:
    return issubclass(cls, msgspec.Struct) and all(
        kind in (str, int, bool, dict[str, str]) for kind in get_type_hints(cls).values()
    )


def _key(key: Any, text: Callable[[str], str], quoted_keys: bool) -> str:
    if isinstance(key, int) and quoted_keys:
        return f'"{key}"'
    return str(key) if isinstance(key, int) else _write(key, text, quoted_keys)


@functools.cache
def _members(cls: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """For each member of a Struct, the text before its value and its attribute."""
    as_ascii, _ = _text_writers()
    names = zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True)
    return tuple((f"{as_ascii(name)}:", field) for name, field in names)
