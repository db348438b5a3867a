"""Alerts by the user's rules, over a real broker: toast, bell, row mark, log line, and the alert's end."""

from __future__ import annotations

import pytest

from rmqadmin.core.alerts.alert_rules import parse_alert_rules
from rmqadmin.tui.app import DashboardApp
from rmqproto.bodies.routes import TopicConfig
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.opened import Driver, at_row, drive, line_of
from tests.support.servers import Fresh

FAST_S = 0.1


@pytest.mark.slow
def test_an_alert_is_seen_and_heard_and_over(world: World, fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = fresh("quiet")  # rates cover a minute, for which the world's own topic has one
    world.admin.create_topic(world.server.broker_addr, TopicConfig(topic_name=quiet))
    for name in ("GROUPS_MIN_S", "UNSEEN_GROUPS_MIN_S"):
        monkeypatch.setattr(f"rmqadmin.tui.sampler.{name}", FAST_S)
    bells = []
    monkeypatch.setattr(DashboardApp, "bell", lambda _: bells.append(None))
    rules = parse_alert_rules(
        f"[[alert]]\nwhen = 'lag'\ngroup = '{world.group}'\nabove = 3\nuntil = 1\n"
        f"[[alert]]\nwhen = 'zero-rate'\ntopic = '{quiet}'\n"
    )

    async def test(driver: Driver) -> None:
        await driver.until_shown("alert: lag 4, more than 3", world.group)
        await driver.until_shown("alert: nothing came in")
        await driver.until(lambda: len(bells) == 2)
        await at_row(driver, "g", world.group)
        await driver.until(lambda: line_of(driver, f" {world.group} ", "alert: lag") != "")
        for queue_id in range(3):
            world.admin.update_consumer_offset(world.server.broker_addr, world.group, world.topic, queue_id, 1)
        await driver.until_shown("alert is over: lag")
        await driver.until(lambda: line_of(driver, f" {world.group} ", "offline") != "")
        await driver.press("h")
        await driver.until(lambda: bool(line_of(driver, world.group, "alert is over")))
        assert len(bells) == 2

    drive(world.make_client, test, size=(200, 40), interval_s=FAST_S, alerts=rules)
