"""A slave's note about itself for its next start; a broker that becomes the master drops it."""

from __future__ import annotations

from pathlib import Path

from rmqserver.broker.replicas.slave_note import SlaveNote, forget_slave_note, was_slave
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk


def test_it_is_known_until_this_broker_is_a_slave_no_more(tmp_path: Path) -> None:
    def files() -> ConfigFiles:
        return ConfigFiles(str(tmp_path), OsDisk(), background=False)

    assert not was_slave(files())
    note = SlaveNote(files())
    note.load()
    assert (was_slave(files()), note.is_other_log) == (True, False)
    note.compared(is_other_log=True)
    again = SlaveNote(files())
    again.load()
    assert again.is_other_log
    forget_slave_note(files())
    assert not was_slave(files())
    anew = SlaveNote(files())
    anew.load()
    assert not anew.is_other_log
