"""What read-only and protected contexts permit, and how they refuse."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from rmqadmin.core.contexts import permission
from rmqadmin.core.contexts.context import Context
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.contexts.permission import (
    ChangePermission,
    ChangeRefusedError,
    ProtectedContextError,
    ReadOnlyContextError,
    guards,
)
from rmqadmin.core.contexts.settings import EffectiveSettings
from rmqproto.errors import RocketMQError

Permit = Callable[..., ChangePermission]


@pytest.fixture
def asked() -> list[str]:
    """Names of the contexts that the user was asked to confirm."""
    return []


@pytest.fixture
def permit(store: ContextStore, asked: list[str]) -> Permit:
    """``permit("read_only", "protected", typed="live")``: the permission of a call in a context ``live``."""
    store.add("live", {"namesrv_addr": "10.0.0.1:9876;10.0.0.2:9876"})

    def make(
        *marks: str, is_unlocked: bool = False, confirmed: str | None = None, typed: str | None = None
    ) -> ChangePermission:
        store.change("live", dict.fromkeys(marks, True))

        def ask(context: Context) -> str | None:
            asked.append(context.name)
            return typed

        settings = EffectiveSettings({}, context_flag="live", environment={})
        return ChangePermission(
            lambda addr: guards(settings, addr, pytest.fail), is_unlocked=is_unlocked, confirmed=confirmed, ask_name=ask
        )

    return make


def test_a_context_without_marks_asks_nobody(permit: Permit, asked: list[str]) -> None:
    permit().check()
    assert asked == []


def test_read_only_says_how_to_unlock(permit: Permit) -> None:
    with pytest.raises(ReadOnlyContextError, match="the context live is read-only: nothing was changed") as caught:
        permit("read_only").check()
    assert caught.value.hint.startswith("--unlock")
    assert "rmqadmin context edit live --no-read-only" in caught.value.hint
    permit("read_only", is_unlocked=True).check()


def test_read_only_is_said_before_anybody_is_asked(permit: Permit, asked: list[str]) -> None:
    with pytest.raises(ReadOnlyContextError):
        permit("read_only", "protected", typed="live").check()
    assert asked == []
    with pytest.raises(ProtectedContextError):  # unlocking does not replace the confirmation
        permit("read_only", "protected", is_unlocked=True).check()


def test_protected_wants_the_name_typed_once(permit: Permit, asked: list[str]) -> None:
    permission = permit("protected", typed="live")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: permission.check(), range(8)))
    assert asked == ["live"]


@pytest.mark.parametrize("typed", ["", "y", "yes", "Live", "live ", None])
def test_nothing_else_is_a_yes_and_nobody_is_asked_again(permit: Permit, asked: list[str], typed: str | None) -> None:
    permission = permit("protected", typed=typed)
    for _ in range(3):
        with pytest.raises(ProtectedContextError, match="protected: nothing was changed") as caught:
            permission.check()
    assert asked == ["live"]
    assert "--confirm live" in caught.value.hint


def test_a_script_gives_the_name(permit: Permit, asked: list[str]) -> None:
    permit("protected", confirmed="live").check()
    with pytest.raises(ProtectedContextError, match="protected, not dev: nothing"):
        permit("protected", confirmed="dev", typed="live").check()
    assert asked == []


def test_a_refusal_is_not_mistaken_for_one_servers_failure() -> None:
    """Commands go on with the next broker after a RocketMQError."""
    assert not issubclass(ChangeRefusedError, RocketMQError)


# --- whose rules apply ------------------------------------------------------------------------------------------------


def guarding(settings: EffectiveSettings, namesrv_addr: str | None = None) -> list[str]:
    return [context.name for context in guards(settings, namesrv_addr, pytest.fail)]


def test_the_rules_of_a_context_hold_for_its_servers_however_they_are_reached(store: ContextStore) -> None:
    store.add("live", {"namesrv_addr": "Live1:9876;live2:9876"})
    store.add("dev", {"namesrv_addr": "dev:9876"})
    assert guarding(EffectiveSettings({}, environment={})) == []
    assert guarding(EffectiveSettings({"namesrv_addr": "live2:9876"}, environment={})) == ["live"]
    assert guarding(EffectiveSettings({}, environment={"NAMESRV_ADDR": "x:1; LIVE1:9876"})) == ["live"]
    store.use("dev")
    assert guarding(EffectiveSettings({}, environment={})) == ["dev"]
    assert guarding(EffectiveSettings({"namesrv_addr": "live1:9876"}, environment={})) == ["dev", "live"]
    assert guarding(EffectiveSettings({"namesrv_addr": "tunnel:1"}, environment={})) == ["dev"]  # another route
    assert guarding(EffectiveSettings({}, environment={}), "live1:9876") == ["live"]  # a target elsewhere
    assert guarding(EffectiveSettings({}, environment={}), "dev:9876") == ["dev"]


def test_the_rules_hold_for_a_server_under_its_other_names(
    store: ContextStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add("live", {"namesrv_addr": "localhost:9876", "protected": True})
    store.add("near", {"namesrv_addr": "localhost:9877", "protected": True})
    for name in ("127.0.0.1:9876", "127.1:9876", "127.0.0.1:09876"):
        assert guarding(EffectiveSettings({"namesrv_addr": name}, environment={})) == ["live"]
    over = Event()
    monkeypatch.setattr(permission, "FOUND_WITHIN_S", 0.1)
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [over.wait()][:0])  # a name service that is gone
    assert guarding(EffectiveSettings({"namesrv_addr": "other:9876"}, environment={})) == []
    over.set()


def test_of_two_contexts_of_the_same_servers_the_chosen_one_decides(store: ContextStore) -> None:
    """One context is read-only, for looking; the other is for changes."""
    store.add("look", {"namesrv_addr": "h:1"})
    store.add("change", {"namesrv_addr": "h:1;h:2"})
    for name in ("look", "change"):
        assert guarding(EffectiveSettings({}, context_flag=name, environment={})) == [name]
    both = EffectiveSettings({"namesrv_addr": "h:1"}, environment={})
    assert guarding(both) == ["change", "look"]
    more = EffectiveSettings({"namesrv_addr": "h:1;h:2"}, context_flag="look", environment={})
    assert guarding(more) == ["look", "change"]


def test_a_broken_file_is_told_and_hides_no_other(store: ContextStore) -> None:
    for name in ("a", "b"):
        store.add(name, {"namesrv_addr": "h:1"})
    store.path("a").write_text("nonsense")
    told: list[RocketMQError] = []
    found = guards(EffectiveSettings({"namesrv_addr": "h:1"}, environment={}), None, told.append)
    assert [context.name for context in found] == ["b"]
    assert "a.toml:1" in str(told[0])
