"""Dialogs with fields to fill in, and those that change servers step by step, as commands do: the changes on each
server, the outcome, and how to undo it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, TypeVar

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from rmqadmin.core.changes import Step, carry_out, warn
from rmqadmin.core.manifests.way_back import carry_out_undoable
from rmqadmin.core.results import Result
from rmqadmin.core.terminal_text import display_width
from rmqadmin.tui.dialogs.change import ChangeScreen, Occasion
from rmqadmin.tui.dialogs.change_lines import ChangeLines
from rmqadmin.tui.dialogs.inputs import FieldInput
from rmqadmin.tui.literal import literal
from rmqadmin.tui.until_closed import while_open
from rmqproto.errors import UsageError
from rmqproto.java.whole_numbers import signed_number

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

W = TypeVar("W", bound=StrEnum)

_BOOLS = {"yes": True, "true": True, "no": False, "false": False}


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a form. ``name`` identifies the answer. ``hint`` says what may be entered; ``example`` is shown while
    the field is empty. ``is_verbatim``: blanks at both ends count."""

    name: str
    label: str
    value: str = ""
    hint: str = ""
    example: str = ""
    is_secret: bool = False
    is_verbatim: bool = False

    @property
    def input_id(self) -> str:
        return f"field-{self.name.replace('_', '-')}"


HINT_WIDTH_MAX = 36
INPUT_WIDTH_MIN = 12
"""On a terminal that is too narrow for hints beside inputs of this width, hints are left out."""


class FieldLines(Horizontal):
    """The lines of a form: all labels are one widget, and all hints, because each widget delays the key that opens the
    form by 1 ms. The inputs share the rest of the width."""

    def __init__(self, fields: Sequence[FormField]):
        super().__init__(id="fields")
        self._fields = fields
        labels, hints = ([getattr(field, name) for field in fields] for name in ("label", "hint"))
        self._label_width = max(map(display_width, labels)) + 2
        self._hint_width = min(HINT_WIDTH_MAX, max(map(display_width, hints)) + 1)
        self._labels = _column(labels, self._label_width, "field--labels")
        self._hints = _column(hints, self._hint_width, "field--hints")

    def compose(self) -> ComposeResult:
        yield self._labels
        with Vertical():
            for field in self._fields:
                yield FieldInput(field.value, field.example, id=field.input_id, password=field.is_secret)
        yield self._hints

    def on_resize(self, event: events.Resize) -> None:
        self._hints.display = event.size.width - self._label_width - self._hint_width >= INPUT_WIDTH_MIN


def _column(texts: Iterable[str], width: int, kind: str) -> Static:
    column = Static(Content("\n").join(map(literal, texts)), classes=kind)
    column.styles.width = width
    return column


class FormScreen(ChangeScreen):
    """Subclasses give ``fields`` and ``change``. Enter makes a preview of the fields' contents. After an edit, nothing
    can be carried out before the next preview."""

    empty: ClassVar[str] = ""
    """What an empty field does: ``takes the default``."""

    def __init__(self, title: str, name_to_type: str | None):
        super().__init__(title, name_to_type)
        self._said: dict[str, str] = {}

    def fields(self) -> Sequence[FormField]:
        return ()

    def words(self) -> str:
        """The text above the fields."""
        return f"Enter shows what would change. An empty field {self.empty}."

    # --- the form ----------------------------------------------------------------------------------------------------

    def form(self) -> Iterable[Widget]:
        yield Static(literal(self.words()), classes="label")
        if fields := self.fields():
            yield FieldLines(fields)

    def on_mount(self) -> None:
        if not self.fields():
            self.preview()

    def _answers(self) -> dict[str, str]:
        values = {field: self.query_one(f"#{field.input_id}", Input).value for field in self.fields()}
        return {field.name: value if field.is_verbatim else value.strip() for field, value in values.items()}

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id != "name" and not self._changing:
            self._said = self._answers()
            self.preview()

    def on_input_changed(self, event: Input.Changed) -> None:
        is_known = bool(self._said) and not self._changing
        if event.input.id != "name" and is_known and self._answers() != self._said:
            self.workers.cancel_group(self, "preview")
            with while_open(self):
                self._show_name(False)

    # --- answers -----------------------------------------------------------------------------------------------------

    def said(self, name: str) -> str | None:
        """The answer in a field; None if it is empty."""
        return self._said.get(name) or None

    def said_int(self, name: str, *, least: int | None = None) -> int | None:
        """The answer as a number, which must be at least ``least``, as for the command's option."""
        text = self.said(name)
        if text is None:
            return None
        number = signed_number(text)
        if number is None:
            raise UsageError(f"{self._label(name)}: {text} is not a number")
        if least is not None and number < least:
            raise UsageError(f"{self._label(name)}: {text} must be {least} or more")
        return number

    def said_bool(self, name: str) -> bool | None:
        text = self.said(name)
        if text is None:
            return None
        if text.lower() not in _BOOLS:
            raise UsageError(f"{self._label(name)}: {text} must be yes or no")
        return _BOOLS[text.lower()]

    def said_word(self, name: str, words: type[W]) -> W | None:
        """The answer as a member of an enumeration, in any case."""
        text = self.said(name)
        if text is None:
            return None
        found = next((word for word in words if word.lower() == text.lower()), None)
        if found is None:
            raise UsageError(f"{self._label(name)}: {text} must be one of {', '.join(words)}")
        return found

    def required(self, name: str) -> str:
        text = self.said(name)
        if text is None:
            raise UsageError(f"{self._label(name)} is missing")
        return text

    def _label(self, name: str) -> str:
        return next(field.label for field in self.fields() if field.name == name)


class StepsScreen(FormScreen):
    """A form whose change is made of steps. Subclasses give ``plan``."""

    command: ClassVar[str] = ""
    """The command that does the same; part of the undo file's name."""

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        """Reads the servers and returns the steps, without changing anything. Called twice, in a thread: for the
        preview and for the change."""
        raise NotImplementedError

    def change(self, admin: AdminClient, occasion: Occasion) -> Result:
        steps = self.plan(admin, occasion)
        warn(steps, occasion.notice)
        if occasion.dry_run:
            found = ChangeLines(carry_out(steps, dry_run=True))
            if found.changes_nothing:
                occasion.notice("nothing would change")
            return found
        rows, _ = carry_out_undoable(self.command, steps, occasion.now_ms, occasion.notice)
        return ChangeLines(rows)

    def may_go_on(self, result: Result) -> bool:
        return isinstance(result, ChangeLines) and not result.changes_nothing


def attributes_field(attributes: Iterable[Mapping[str, str]]) -> FormField:
    """The field for attributes to add, change or remove, which shows the present ones."""
    pairs = dict.fromkeys(f"{name}={value}" for one in attributes for name, value in one.items())
    return FormField(
        name="attributes",
        label="attributes",
        example="+name=value,-name",
        hint=f"now {', '.join(pairs)}" if pairs else "none yet",
    )


def place_field(on: str) -> FormField:
    """The field for where to create something; ``on`` is the default."""
    return FormField(name="on", label="on", value=on, hint="a cluster, or a broker's address")


def yes_no(value: bool | None) -> str:
    """A value for a form; empty if it is unknown or differs between brokers."""
    return "" if value is None else "yes" if value else "no"


def common(values: Iterable[object]) -> object | None:
    """The common value; None if values differ or there are none."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def place(text: str) -> tuple[str | None, str | None]:
    """The values of a command's ``-b`` and ``-c``: a broker's address, or a cluster's name."""
    return (text, None) if ":" in text else (None, text)


def nothing_on(broker_names: Sequence[str]) -> str:
    """The notice about brokers that a change leaves out."""
    they = "it" if len(broker_names) == 1 else "they"
    return f"nothing changes on {', '.join(broker_names)}: {they} cannot be asked"
