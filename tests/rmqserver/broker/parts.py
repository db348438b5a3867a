"""The parts of a broker on a store and a clock of the test's own, without a loop or a listener."""

from collections.abc import Callable
from unittest.mock import patch

from rmqserver.broker.assembly import BrokerAssembly
from rmqserver.broker.reads import Reads
from rmqserver.broker.replicas.ha_master import HaMaster
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import TimerPaths
from rmqserver.store.sequences.sequence_feed import SequenceFeed
from rmqserver.store.timers.timer_store import TimerStore


def parts_on(
    store: MessageStore, files: ConfigFiles, settings: str = "", reads: Callable[..., Reads] = Reads,
    replicas: Callable[[BrokerConfig, MessageStore], HaMaster] = HaMaster,
) -> BrokerAssembly:  # fmt: skip
    """The parts of a broker on an open ``store``. The caller closes ``store`` and ``files``."""
    config = BrokerConfig.from_properties(settings)
    timer_store = TimerStore(
        TimerPaths.below(store.directory.root), config.timer_options(), store.disk,
        FileCache(store.disk, open_files_max=10),
    )  # fmt: skip
    with patch("rmqserver.broker.assembly.Reads", reads):
        return BrokerAssembly(
            config, store, timer_store, SequenceFeed(store), files, replicas(config, store), lambda: None,
            lambda call: None,
        )  # fmt: skip
