"""``export``, ``diff`` and ``apply`` on a real broker and on ours: applying an export restores what was deleted, a
second apply has nothing to do, and the undo file restores the former state."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig

from ..cluster import CLUSTER_NAME, Cluster

pytestmark = pytest.mark.interop


def test_topics_and_groups_go_and_come_back(cluster: Cluster, fresh: Callable[[str], str], tmp_path: Path) -> None:
    def rmqadmin(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rmqadmin", *words, "-n", cluster.namesrv_addr, "--timeout", "60"]
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
        return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)

    def exported(section: str, names: list[str]) -> dict[str, Any]:
        document = json.loads(rmqadmin("export", section, "-c", CLUSTER_NAME, "--format", "json").stdout)
        return {name: document[section][name] for name in names if name in document[section]}

    fifo, log, group = fresh("ManifestFifo"), fresh("ManifestLog"), fresh("ManifestGroup")
    with AdminClient(cluster.namesrv_addr, timeout_s=60) as admin:
        admin.create_topic(
            cluster.broker_addr,
            TopicConfig(topic_name=fifo, read_queue_nums=3, order=False, attributes={"+message.type": "FIFO"}),
        )
        admin.create_topic(
            cluster.broker_addr, TopicConfig(topic_name=log, perm=4, attributes={"+cleanup.policy": "DELETE"})
        )
        admin.create_group(cluster.broker_addr, SubscriptionGroupConfig(group_name=group, retry_max_times=3))
    topics, groups = exported("topics", [fifo, log]), exported("groups", [group])
    assert topics.keys() == {fifo, log}
    assert topics[fifo]["attributes"] == {"message.type": "FIFO"}
    assert groups[group]["retryMaxTimes"] == 3

    file = tmp_path / "wanted.json"
    file.write_text(json.dumps({"topics": topics, "groups": groups}))
    there = ("-f", str(file), "-c", CLUSTER_NAME)
    same = rmqadmin("diff", *there)
    assert (same.returncode, same.stdout) == (0, "3 kept\n"), same.stderr

    gone = tmp_path / "gone.yaml"
    gone.write_text(
        f"topics: {{{fifo}: {{absent: true}}, {log}: {{absent: true}}}}\ngroups: {{{group}: {{absent: true}}}}"
    )
    deleted = rmqadmin("apply", "-f", str(gone), "-c", CLUSTER_NAME, "--yes")
    assert deleted.returncode == 0, deleted.stderr
    assert exported("topics", [fifo, log]) == {}
    left = exported("groups", [group])
    assert left == {}, (left, deleted.stdout)

    created = rmqadmin("apply", *there)
    assert created.returncode == 0, created.stderr
    assert (exported("topics", [fifo, log]), exported("groups", [group])) == (topics, groups)
    assert rmqadmin("apply", *there).stdout == "3 kept\n"

    changed = tmp_path / "changed.yaml"
    changed.write_text(f"topics: {{{fifo}: {{readQueueNums: 5, attributes: {{-message.type: ''}}}}}}")
    done = rmqadmin("apply", "-f", str(changed), "-c", CLUSTER_NAME, "--output", "json")
    assert done.returncode == 0, done.stderr
    assert exported("topics", [fifo])[fifo]["readQueueNums"] == 5
    undone = rmqadmin("apply", "-f", json.loads(done.stdout)["summary"]["undo_file"], "--yes")
    assert undone.returncode == 0, undone.stderr
    assert exported("topics", [fifo, log]) == topics
