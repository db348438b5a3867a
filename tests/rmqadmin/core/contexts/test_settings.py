"""Flag, environment, context, file, default: which of them counts for each setting."""

import ssl
from itertools import product
from pathlib import Path

import pytest

from rmqadmin.core.contexts.context_rows import effective_rows
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.contexts.settings import KINDS, EffectiveSettings, Level, config_path
from rmqproto.errors import NotFoundError, UsageError
from rmqproto.wire.credentials import Credentials


def put_config(text: str) -> Path:
    path = config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("said", list(product([True, False], repeat=5)))
def test_the_first_that_says_something_counts(store: ContextStore, said: tuple[bool, ...]) -> None:
    """Every combination of sources that set the name server. ``--context`` makes the context count like a flag."""
    by_flag, by_environment, by_context, by_file, named = said
    store.add("live", {"namesrv_addr": "context:1"})
    if by_context and not named:
        store.use("live")
    if by_file:
        put_config('# ours\nnamesrv_addr = "file:1"\n')
    settings = EffectiveSettings(
        {"namesrv_addr": "flag:1" if by_flag else None},
        context_flag="live" if by_context and named else None,
        environment={"NAMESRV_ADDR": "environment:1"} if by_environment else {},
    )
    order = ["flag", "environment", "context", "file"] if not named else ["flag", "context", "environment", "file"]
    saying = {"flag": by_flag, "environment": by_environment, "context": by_context, "file": by_file}
    expected = next((level for level in order if saying[level]), "default")
    found = settings.setting("namesrv_addr")
    assert found.level == expected
    assert found.value == ("127.0.0.1:9876" if expected == "default" else f"{expected}:1")
    assert (
        found.source
        == {
            "flag": "-n",
            "environment": "NAMESRV_ADDR",
            "context": f"{store.path('live')}:2",
            "file": f"{config_path()}:2",
            "default": "built in",
        }[expected]
    )


def test_our_variable_comes_before_mqadmins_and_an_empty_one_says_nothing(store: ContextStore) -> None:
    for ours, value in (("ours:1", "ours:1"), ("", "theirs:1")):
        environment = {"RMQADMIN_NAMESRV": ours, "NAMESRV_ADDR": "theirs:1"}
        assert EffectiveSettings({}, environment=environment).setting("namesrv_addr").value == value


def test_each_setting_comes_from_where_it_is_said(store: ContextStore) -> None:
    put_config("timeout_s = 7\noutput = 'json'\nparallel = 4\n")
    store.add("live", {"namesrv_addr": "h:1", "cluster": "A", "tls": True, "parallel": 3})
    store.use("live")
    settings = EffectiveSettings({"namesrv_addr": "flag:1"}, environment={"RMQADMIN_TLS": "no", "NO_COLOR": "1"})
    levels = {row.setting: row.origin for row in effective_rows(settings, with_origin=True)}
    assert levels == {kind.key: "default" for kind in KINDS} | {
        "context": "file", "namesrv_addr": "flag", "cluster": "context", "tls": "environment", "timeout_s": "file",
        "parallel": "context", "output": "file", "color": "environment",
    }  # fmt: skip
    assert settings.setting("parallel").value == 3
    assert EffectiveSettings({}, context_flag="none", environment={}).setting("parallel").value == 4
    assert {settings.setting("timeout_s").value, settings.setting("tls").value} == {7.0, False}


def test_which_context_is_said_by_a_flag_then_the_environment_then_use(store: ContextStore) -> None:
    for name in ("a", "b", "c"):
        store.add(name, {"namesrv_addr": f"{name}:1"})
    store.use("a")

    def named(flag: str | None, **environment: str) -> str | None:
        context = EffectiveSettings({}, context_flag=flag, environment=environment).context
        return None if context is None else context.name

    assert named(None) == "a"
    assert named(None, RMQADMIN_CONTEXT="b") == "b"
    assert named("c", RMQADMIN_CONTEXT="b") == "c"
    assert named("none", RMQADMIN_CONTEXT="b") is None
    assert named(None, RMQADMIN_CONTEXT="none") is None
    with pytest.raises(NotFoundError):
        named("d")


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("RMQADMIN_TLS", "perhaps"),
        ("RMQADMIN_TIMEOUT", "soon"),
        ("RMQADMIN_TIMEOUT", "-1"),
        ("RMQADMIN_TIMEOUT", "nan"),
        ("RMQADMIN_PARALLEL", "0"),
        ("RMQADMIN_PARALLEL", "65"),
        ("RMQADMIN_PARALLEL", "many"),
    ],
)
def test_a_variable_that_says_nothing_sensible_is_named(store: ContextStore, variable: str, text: str) -> None:
    key = next(kind.key for kind in KINDS if variable in kind.variables)
    with pytest.raises(UsageError, match=f"{variable}={text}"):
        EffectiveSettings({}, environment={variable: text}).setting(key)


def test_a_file_of_settings_that_is_broken_says_where(store: ContextStore) -> None:
    put_config("\noutptu = 'json'\n")
    with pytest.raises(UsageError, match=r"config\.toml:2: there is no setting 'outptu'") as caught:
        EffectiveSettings({}).setting("output")
    assert caught.value.hint == "Did you mean output?"


def test_only_what_is_asked_for_is_read(store: ContextStore) -> None:
    """A broken context must not block commands that need no context."""
    store.add("a", {"namesrv_addr": "h:1"})
    store.use("a")
    store.path("a").write_text("nonsense")
    settings = EffectiveSettings({"namesrv_addr": "flag:1"}, environment={})
    assert settings.setting("output").value == "table"
    assert settings.setting("namesrv_addr").value == "flag:1"
    with pytest.raises(UsageError):
        settings.setting("cluster")


# --- keys ------------------------------------------------------------------------------------------------------------


def test_keys_of_a_context_are_looked_up_where_it_says(store: ContextStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVE_SECRET", "s")
    store.add("live", {"namesrv_addr": "h:1", "access_key": "command:echo k", "secret_key": "env:LIVE_SECRET"})
    assert EffectiveSettings({}, context_flag="live").credentials() == Credentials("k", "s")
    given = {"access_key": "x", "secret_key": "y"}
    assert EffectiveSettings(given, context_flag="live").credentials() == Credentials("x", "y")


def test_a_pair_of_keys_is_not_put_together_from_two_places(store: ContextStore) -> None:
    store.add("live", {"namesrv_addr": "h:1", "access_key": "env:A", "secret_key": "env:B"})
    for flags, environment in (({"access_key": "x"}, {}), ({}, {"RMQADMIN_SECRET_KEY": "y"})):
        store.use("live")
        with pytest.raises(UsageError, match="two keys from one place"):
            EffectiveSettings(flags, environment=environment).credentials()


def test_no_row_shows_a_key(store: ContextStore) -> None:
    store.add("live", {"namesrv_addr": "h:1", "access_key": "env:A", "secret_key": "file:/run/key"})
    shown = {
        row.setting: row.value for row in effective_rows(EffectiveSettings({}, context_flag="live"), with_origin=True)
    }
    assert (shown["access_key"], shown["secret_key"]) == ("env:A", "file:/run/key")
    said = EffectiveSettings({"access_key": "hunter1", "secret_key": "hunter2"}, environment={})
    assert "hunter" not in str(effective_rows(said, with_origin=True))


# --- TLS -------------------------------------------------------------------------------------------------------------


def test_a_flag_overrules_how_a_context_checks_certificates(store: ContextStore) -> None:
    store.add("live", {"namesrv_addr": "h:1", "tls": True, "tls_ca": "/no/such.pem"})
    with pytest.raises(UsageError, match=r"/no/such\.pem"):
        EffectiveSettings({}, context_flag="live").tls()
    store.use("live")
    for flag in ("live", None):
        context = EffectiveSettings({"tls_insecure": True}, context_flag=flag, environment={}).tls()
        assert context.verify_mode is ssl.CERT_NONE
    assert EffectiveSettings({"tls": False}, context_flag="live").tls() is None
    with pytest.raises(UsageError, match=r"/no/such\.pem"):  # --context comes before the environment
        EffectiveSettings({}, context_flag="live", environment={"RMQADMIN_TLS_INSECURE": "true"}).tls()
    store.change("live", {"tls_insecure": True}, frozenset({"tls_ca"}))
    with pytest.raises(UsageError, match=r"/other\.pem"):  # the flag's CA counts, not the context's tls_insecure
        EffectiveSettings({"tls_ca": "/other.pem"}, environment={}).tls()


def test_a_key_of_the_context_does_not_go_with_another_certificate(store: ContextStore) -> None:
    store.add("live", {"namesrv_addr": "h:1", "tls": True, "tls_cert": "/old.pem", "tls_key": "/old.key"})
    with pytest.raises(UsageError, match=r"/new\.pem"):
        EffectiveSettings({"tls_cert": "/new.pem"}, context_flag="live").tls()
    assert Level.CONTEXT is EffectiveSettings({}, context_flag="live").setting("tls_key").level
