"""A file system in memory that knows what a crash may leave of it. Every test in this directory relies on its fault
model:

- A device writes sectors of 512 bytes whole or not at all. Between two syncs of a file it may have written any subset
  of the dirty sectors, each in any state it had since the last sync (a page may go to the device at any time). So a
  write may be lost, kept, or torn at a sector, independently of earlier and later writes.
- ``fdatasync`` makes a file's data and size durable. Until then a crash may leave any size that the file has had since
  the last sync. A sync of the file system does this for every file and every directory.
- Names - new files, new directories, renames, removals - become durable with a sync of their directory. Until then a
  crash leaves the first changes of a directory, any number of them, and none of the later ones: file systems with a
  journal keep their order. A rename is whole or not at all. Syncing a file does not sync its name.
- Directories are independent of each other, and data is independent of names: a name may be there before its data.
- After a failed sync, the data that it should have covered is only in the page cache, and no later sync writes it.
- Synced data stays unchanged: there is no bit rot, and no device lies about a sync.

A process that is killed without a power cut loses nothing: that image is the file system as it is (``Loss.NOTHING``).
"""

from __future__ import annotations

import enum
import errno
import os
from collections.abc import Callable, Iterator
from random import Random

from rmqserver.store.disk.disk import DiskUsage

SECTOR_BYTES = 512


class Loss(enum.Enum):
    """Which unsynced changes an image lacks."""

    NOTHING = enum.auto()
    EVERYTHING = enum.auto()
    TORN = enum.auto()
    """The first or the last sectors of the last write."""
    NAMES = enum.auto()
    """All changes of names; the data is there."""
    DATA = enum.auto()
    """All data; the names are there."""
    SOME = enum.auto()
    """Any subset of sectors, and all but any first part of each directory's changes."""


class Inode:
    """A file's content: the present one, the synced one, and the states of each dirty sector since."""

    __slots__ = ("data", "dirty", "is_lossy", "sizes", "synced")

    def __init__(self, content: bytes | bytearray = b""):
        self.data = bytearray(content)
        self.synced = bytes(content)
        self.dirty: dict[int, list[bytes]] = {}
        self.sizes: list[int] = []
        self.is_lossy = False
        """Whether a sync has failed."""

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        content, end = self.data, at + len(data)
        if end > len(content):
            self.truncate(end)
        content[at:end] = data
        for sector in range(at // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            state = bytes(content[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES])
            self.dirty.setdefault(sector, []).append(state)

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.data += bytes(size - len(self.data))
        self.sizes.append(size)

    def sync(self) -> None:
        if self.is_lossy:
            content = bytearray(self.synced[: len(self.data)].ljust(len(self.data), b"\0"))
            for sector, states in self.dirty.items():
                content[sector * SECTOR_BYTES : sector * SECTOR_BYTES + len(states[-1])] = states[-1]
            self.synced = bytes(content)
        elif self.dirty or self.sizes:
            self.synced = bytes(self.data)
        self.dirty.clear()
        self.sizes.clear()

    def fail_sync(self) -> None:
        """Marks the pages as clean although their data is not on the device: no later sync writes them."""
        self.is_lossy = True
        self.dirty.clear()
        self.sizes.clear()

    def some(self, rng: Random) -> bytearray:
        """The synced content with a random choice of the sector states and sizes since."""
        content = bytearray(self.synced)
        size = len(content)
        if self.sizes:
            size = rng.choice([size, *self.sizes, self.sizes[-1]])
            content += bytes(max(0, size - len(content)))
        often = rng.random()
        for sector, states in self.dirty.items():
            if rng.random() < often:
                state = states[-1] if len(states) == 1 else rng.choice(states)
                content[sector * SECTOR_BYTES : sector * SECTOR_BYTES + len(state)] = state
        del content[size:]
        return content

    def torn(self, lost: range) -> bytearray:
        """The present content, but the ``lost`` sectors are as before the last write."""
        content = bytearray(self.data)
        for sector in lost:
            states = self.dirty.get(sector, ())
            at = sector * SECTOR_BYTES
            before = states[-2] if len(states) > 1 else self.synced[at : at + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0")
            content[at : at + SECTOR_BYTES] = before
        del content[len(self.data) :]
        return content


class Directory:
    """Names, and the changes to them that are not synced. Each change is a list of names with their new nodes, None for
    a removed one."""

    __slots__ = ("changes", "entries", "synced")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.synced: dict[str, Node] = {}
        self.changes: list[list[tuple[str, Node | None]]] = []

    def change(self, *names: tuple[str, Node | None]) -> None:
        _apply(self.entries, names)
        self.changes.append(list(names))

    def sync(self) -> None:
        if self.changes:
            self.synced = dict(self.entries)
            self.changes.clear()

    def after(self, change_count: int) -> dict[str, Node]:
        entries = dict(self.synced)
        for names in self.changes[:change_count]:
            _apply(entries, names)
        return entries


Node = Inode | Directory


def _apply(
    entries: dict[str, Node], names: list[tuple[str, Node | None]] | tuple[tuple[str, Node | None], ...]
) -> None:
    for name, node in names:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def _below(directory: Directory) -> Iterator[Node]:
    """The directory, and everything in it."""
    yield directory
    for node in directory.entries.values():
        if isinstance(node, Directory):
            yield from _below(node)
        else:
            yield node


class RecordingFile:
    """A ``File`` on an inode, which stays usable if its name is removed."""

    __slots__ = ("_disk", "inode", "path")

    fd = -1

    def __init__(self, disk: RecordingDisk, path: str, inode: Inode):
        self._disk = disk
        self.path = path
        self.inode = inode

    def size(self) -> int:
        return len(self.inode.data)

    def pread(self, size_bytes: int, at: int) -> bytes:
        self._disk.call("pread", self.path)
        return bytes(self.inode.data[at : at + size_bytes])

    def pread_cached(self, size_bytes: int, at: int) -> bytes | None:
        data = self.pread(size_bytes, at)
        return data if len(data) == size_bytes else None

    def pread_cached_into(self, memory: memoryview, at: int) -> bool:
        return self.pread_direct(memory, at) == len(memory)

    def pread_direct(self, memory: memoryview, at: int) -> int:
        data = self.pread(len(memory), at)
        memory[: len(data)] = data
        return len(data)

    def next_data(self, at: int) -> int:
        rest = self.inode.data[at:]
        return at if rest.count(0) != len(rest) else len(self.inode.data)

    def pwrite(self, data: bytes | bytearray | memoryview, at: int) -> None:
        data = bytes(data)
        try:
            self._disk.call("pwrite", self.path)
        except OSError:
            self._write(data[: self._disk.short_write_bytes(len(data))], at)
            raise
        self._write(data, at)

    def pwrite_direct(self, data: memoryview, at: int) -> None:
        """As ``pwrite`` in this model: the device may keep it in a memory of its own until the sync."""
        assert (at | len(data)) % SECTOR_BYTES == 0
        self.pwrite(data, at)

    def _write(self, data: bytes, at: int) -> None:
        if data:
            self.inode.write(data, at)
            first, stop = at // SECTOR_BYTES, -(-(at + len(data)) // SECTOR_BYTES)
            self._disk.last_write = (self.inode, range(first, stop))
            self._disk.done()

    def fdatasync(self) -> None:
        try:
            self._disk.call("fdatasync", self.path)
        except OSError:
            self.inode.fail_sync()
            raise
        self._sync()

    def _sync(self) -> None:
        self.inode.sync()
        self._disk.done()

    def allocate(self, at: int, size_bytes: int) -> None:
        self._disk.call("allocate", self.path)

    def truncate(self, size_bytes: int) -> None:
        self._disk.call("truncate", self.path)
        self.inode.truncate(size_bytes)
        self._disk.done()

    def close(self) -> None:
        pass


class RecordingDisk:
    """A ``Disk`` in memory. ``on_call`` is called with operation and path before every operation, and may raise
    OSError; ``on_change`` is called after every operation that changed something, when a crash would leave something
    new."""

    def __init__(self) -> None:
        self.root = Directory()
        self.boot_number = 0
        self.last_write: tuple[Inode, range] | None = None
        self.on_call: Callable[[str, str], None] | None = None
        self.on_change: Callable[[], None] | None = None
        self._nodes: dict[str, Node] = {}
        """Cache of nodes by path, cleared when a name goes."""

    def call(self, operation: str, path: str) -> None:
        if self.on_call is not None:
            self.on_call(operation, path)

    def done(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def short_write_bytes(self, size_bytes: int) -> int:
        """How much of a failing write is written."""
        return size_bytes // 2

    # -- Disk

    def open(self, path: str, *, create_size_bytes: int | None = None, read_only: bool = False) -> RecordingFile:
        self.call("open", path)
        node = self.find(path)
        if node is None and create_size_bytes is not None:
            self.call("create", path)
            parent, name = self._parent(path)
            node = Inode()
            parent.change((name, node))
            self.done()
            if create_size_bytes:
                node.truncate(create_size_bytes)
                self.done()
        return RecordingFile(self, path, self._file(node, path))

    def create_private(self, path: str) -> RecordingFile:
        return self.open(path, create_size_bytes=0)

    def listdir(self, path: str) -> list[str]:
        self.call("listdir", path)
        node = self.find(path)
        return sorted(node.entries) if isinstance(node, Directory) else []

    def is_file(self, path: str) -> bool:
        return isinstance(self.find(path), Inode)

    def is_directory(self, path: str) -> bool:
        return isinstance(self.find(path), Directory)

    def file_size(self, path: str) -> int:
        return len(self._file(self.find(path), path).data)

    def modified_ms(self, path: str) -> int:
        return 0

    def kept_id(self, path: str) -> str:
        return f"{self.boot_number}:{path}"

    def mkdir(self, path: str) -> None:
        at = self.root
        for i, name in enumerate(parts := path.strip("/").split("/")):
            node = at.entries.get(name)
            if node is None:
                self.call("mkdir", "/" + "/".join(parts[: i + 1]))
                node = Directory()
                at.change((name, node))
                self.done()
            if not isinstance(node, Directory):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            at = node

    def rename(self, source: str, target: str) -> None:
        self.call("rename", source)
        parent, name = self._parent(source)
        other_parent, other_name = self._parent(target)
        assert parent is other_parent, "the store renames within a directory only"
        self._nodes.clear()
        parent.change((name, None), (other_name, self._file(parent.entries.get(name), source)))
        self.done()

    def unlink(self, path: str) -> None:
        self.call("unlink", path)
        self._remove(path)

    def rmdir(self, path: str) -> None:
        self.call("rmdir", path)
        node = self.find(path)
        if isinstance(node, Directory) and node.entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._remove(path)

    def _remove(self, path: str) -> None:
        if self.find(path) is not None:
            self._nodes.clear()
            parent, name = self._parent(path)
            parent.change((name, None))
            self.done()

    def remove_tree(self, path: str) -> None:
        """Removes a tree for good, as if a user had done so long before the next crash."""
        self._nodes.clear()
        parent, name = self._parent(path)
        _apply(parent.entries, [(name, None)])
        _apply(parent.synced, [(name, None)])

    def sync_directory(self, path: str) -> None:
        self.call("sync_directory", path)
        node = self.find(path)
        if not isinstance(node, Directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        node.sync()
        self.done()

    can_sync_file_system = True

    def sync_file_system(self, path: str) -> None:
        try:
            self.call("sync_file_system", path)
        except OSError:
            for node in _below(self.root):
                if isinstance(node, Inode) and (node.dirty or node.sizes):
                    node.fail_sync()
            raise
        for node in _below(self.root):
            node.sync()
        self.done()

    def read_bytes(self, path: str) -> bytes:
        self.call("read_bytes", path)
        return bytes(self._file(self.find(path), path).data)

    def usage(self, path: str) -> DiskUsage:
        return DiskUsage(1 << 30, 1 << 40)

    def lock(self, path: str) -> RecordingFile:
        return self.open(path, create_size_bytes=0)

    def lock_owner(self, path: str) -> int | None:
        return None

    def find(self, path: str) -> Node | None:
        found = self._nodes.get(path)
        if found is None:
            found = self._look_up(path)
            if found is not None:
                self._nodes[path] = found
        return found

    def _look_up(self, path: str) -> Node | None:
        node: Node | None = self.root
        for name in path.strip("/").split("/"):
            if not isinstance(node, Directory):
                return None
            node = node.entries.get(name) if name else node
        return node

    def _file(self, node: Node | None, path: str) -> Inode:
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not isinstance(node, Inode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        above, _, name = path.rpartition("/")
        parent = self.find(above)
        if not isinstance(parent, Directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), above)
        return parent, name

    # -- what a crash leaves

    def image(self, loss: Loss, rng: Random) -> RecordingDisk:
        """A file system as a crash at this moment may leave it. The same seed gives the same image."""
        found = RecordingDisk()
        found.boot_number = self.boot_number + (loss is not Loss.NOTHING)
        lost = self._torn_sectors(rng) if loss is Loss.TORN else range(0)
        found.root = self._directory(self.root, loss, rng, lost)
        return found

    def _torn_sectors(self, rng: Random) -> range:
        if self.last_write is None:
            return range(0)
        sectors = self.last_write[1]
        cut = rng.randrange(len(sectors) + 1)
        return sectors[cut:] if rng.random() < 0.7 else sectors[:cut]

    def _directory(self, directory: Directory, loss: Loss, rng: Random, lost: range) -> Directory:
        found = Directory()
        count = len(directory.changes)
        if loss in (Loss.EVERYTHING, Loss.NAMES):
            count = 0
        elif loss is Loss.SOME and count:
            count = rng.randrange(count + 1)
        entries = directory.entries if count == len(directory.changes) else directory.after(count)
        for name, node in entries.items():
            if isinstance(node, Directory):
                found.entries[name] = self._directory(node, loss, rng, lost)
            else:
                found.entries[name] = Inode(self._content(node, loss, rng, lost))
        found.synced = dict(found.entries)
        return found

    def _content(self, inode: Inode, loss: Loss, rng: Random, lost: range) -> bytes | bytearray:
        if loss is Loss.NOTHING:
            return inode.data
        if not inode.dirty and not inode.sizes:
            return inode.synced
        if loss is Loss.SOME:
            return inode.some(rng)
        if loss in (Loss.EVERYTHING, Loss.DATA):
            return inode.synced
        if lost and self.last_write is not None and inode is self.last_write[0]:
            return inode.torn(lost)
        return inode.data

    def tree(self) -> dict[str, bytes]:
        """Every file's content by path."""
        found: dict[str, bytes] = {}

        def walk(path: str, directory: Directory) -> None:
            for name, node in directory.entries.items():
                if isinstance(node, Directory):
                    walk(f"{path}/{name}", node)
                else:
                    found[f"{path}/{name}"] = bytes(node.data)

        walk("", self.root)
        return found
