"""The fields of a dialog, as data: each becomes one line with a stock widget, and each answer one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, OptionList, Select, Static

from rmqadmin.tui.literal import literal
from rmqadmin.tui.widgets.inputs import CompactInput, enter
from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import signed_number

YES_NO = {"yes": True, "no": False}


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a form. ``name`` identifies the answer, ``value`` is what stands there before the user answers.

    It is typed, and ``parse`` makes a value of the text (UsageError for a bad one); or it is one of ``options``, by
    their texts, in a menu, or with ``is_list`` in a list that is always open. ``hint`` says what may be entered;
    ``example`` is shown while nothing is.
    ``is_verbatim``: blanks at both ends count."""

    name: str
    label: str
    value: Any = None
    hint: str = ""
    example: str = ""
    parse: Callable[[str], Any] = str
    options: Mapping[str, Any] | None = None
    is_list: bool = False
    is_required: bool = False
    is_secret: bool = False
    is_verbatim: bool = False

    @property
    def id(self) -> str:
        return f"field-{self.name.replace('_', '-')}"

    def widget(self) -> Widget:
        if self.options is not None and self.is_list:
            return ChoiceList(list(self.options), list(self.options.values()).index(self.value), self.id)
        if self.options is not None:
            options = [(literal(text), value) for text, value in self.options.items()]
            value = Select.NULL if self.value is None else self.value
            return Select(options, prompt=self.example or "-", value=value, id=self.id, compact=True)
        text = "" if self.value is None else str(self.value)
        return FieldInput(text, self.example, id=self.id, password=self.is_secret)

    def written(self, widget: Widget) -> Any:
        """What the widget holds, before it is parsed; None for nothing."""
        if isinstance(widget, OptionList):
            assert self.options is not None
            assert widget.highlighted is not None
            return list(self.options.values())[widget.highlighted]
        if isinstance(widget, Select):
            return None if widget.is_blank() else widget.value
        assert isinstance(widget, Input)
        return (widget.value if self.is_verbatim else widget.value.strip()) or None

    def answer(self, written: Any) -> Any:
        """The value of what was written; None for nothing. UsageError names the field."""
        if written is None and self.is_required:
            raise UsageError(f"{self.label} is missing")
        if not isinstance(written, str) or self.options is not None:
            return written
        try:
            return self.parse(written)
        except UsageError as error:
            raise UsageError(f"{self.label}: {error}", hint=error.hint) from None


class ChoiceList(OptionList):
    """One of several texts. The chosen one has a filled dot before it: its colour alone would not say so."""

    def __init__(self, texts: Sequence[str], chosen: int, id: str):
        self._texts = texts
        super().__init__(*(self._marked(at, chosen) for at in range(len(texts))), id=id, compact=True)
        self.highlighted = chosen

    def _marked(self, at: int, chosen: int) -> Content:
        return literal(f"{'●' if at == chosen else '○'} {self._texts[at]}")

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        for at in range(len(self._texts)):
            self.replace_option_prompt_at_index(at, self._marked(at, event.option_index))


class FieldInput(CompactInput):
    BINDINGS: ClassVar[list[BindingType]] = [enter("Show what would change")]


class FieldLine(Horizontal):
    """A field's label and widget."""

    def __init__(self, field: FormField, label_width: int):
        super().__init__(classes="field")
        self._field, self._label_width = field, label_width

    def compose(self) -> ComposeResult:
        label = Static(literal(self._field.label))
        label.styles.width = self._label_width
        yield label
        yield self._field.widget()


def number(*, least: int | None = None) -> Callable[[str], int]:
    """Reads a whole number, which must be at least ``least``, as for the command's option."""

    def parse(text: str) -> int:
        found = signed_number(text)
        if found is None:
            raise UsageError(f"{text} is not a number")
        if least is not None and found < least:
            raise UsageError(f"{text} must be {least} or more")
        return found

    return parse


def common(values: Iterable[Any]) -> Any:
    """The common value, for a field about several brokers; None if values differ or there are none."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def attributes_field(attributes: Iterable[Mapping[str, str]]) -> FormField:
    """The field for attributes to add, change or remove, which shows the present ones."""
    pairs = dict.fromkeys(f"{name}={value}" for one in attributes for name, value in one.items())
    hint = f"now {', '.join(pairs)}" if pairs else "none yet"
    return FormField(name="attributes", label="attributes", example="+name=value,-name", hint=hint)


def place_field(value: str | None, hint: str = "a cluster, or a broker's address") -> FormField:
    """The field for where to change something."""
    return FormField(name="on", label="on", value=value, hint=hint, parse=place, is_required=True)


def place(text: str) -> tuple[str | None, str | None]:
    """The values of a command's ``-b`` and ``-c``: a broker's address, or a cluster's name."""
    return (text, None) if ":" in text else (None, text)
