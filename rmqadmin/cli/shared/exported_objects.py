"""What the `export` commands share: their options, and their answer, a file for `apply`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.core.manifests.brokers import brokers_of
from rmqadmin.core.manifests.documents import TextFormat, text_of
from rmqadmin.core.manifests.exporting import exported_entries
from rmqadmin.core.manifests.kinds import ObjectKind
from rmqadmin.core.manifests.manifest import ManifestEntry, document_of
from rmqadmin.core.results import Result, Row, doc

FileText = Annotated[
    TextFormat, typer.Option("--format", case_sensitive=False, help="Format of the file; `apply` reads both.")
]


class ExportedRow(Row, frozen=True):
    name: Annotated[str, doc("its name", key=True)]
    kind: Annotated[str, doc("topic, group, user or acl")]
    values: Annotated[dict[str, Any], doc("its fields, by Apache's names")]
    brokers: Annotated[
        dict[str, dict[str, Any]] | None, doc("the brokers that have it, with what is different there; none: all")
    ]


class ExportedObjects(Result, frozen=True):
    """Objects, by name; as a table, the file for `apply`."""

    row_type: ClassVar[type[Row]] = ExportedRow
    kind: str
    section: str
    command: str
    format: TextFormat
    entries: dict[str, ManifestEntry]

    def rows(self) -> Sequence[ExportedRow]:
        return [
            ExportedRow(name=name, kind=self.kind, values=entry.values, brokers=entry.brokers)
            for name, entry in self.entries.items()
        ]

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str]:
        yield text_of(document_of({self.section: self.entries}, self.command), self.format)


def export_objects(
    call: Call, kind: ObjectKind[Any], broker_addr: str | None, cluster_name: str | None, format: TextFormat
) -> ExportedObjects:
    entries = exported_entries(call.admin, kind, brokers_of(call.admin, {}, broker_addr, cluster_name))
    return ExportedObjects(kind.noun, kind.section, call.command, format, entries)
