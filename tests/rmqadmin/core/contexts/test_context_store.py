"""Contexts in their files: kept, changed and chosen, and the errors for a broken file."""

import os
import stat
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.contexts.context import ContextColor, ContextSettings
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.files import alone_in
from rmqproto.errors import NotFoundError, UsageError

ADDR = "127.0.0.1:9876"

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
SETTINGS = st.fixed_dictionaries(
    {"namesrv_addr": st.just(ADDR)},
    optional={
        "cluster": TEXT,
        "access_key": TEXT.filter(str.strip).map("command:{}".format),
        "secret_key": st.just("env:SECRET"),
        "tls": st.booleans(),
        "read_only": st.booleans(),
        "protected": st.booleans(),
        "color": st.sampled_from([str(color) for color in ContextColor]),
        "timeout_s": st.floats(0.001, 1000),
        "parallel": st.integers(1, 64),
    },
)


@given(first=SETTINGS, second=SETTINGS)
def test_what_is_kept_is_what_was_said_after_any_change(
    tmp_path_factory: pytest.TempPathFactory, first: dict[str, object], second: dict[str, object]
) -> None:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        store = ContextStore()
        assert store.add("c", first).settings == store.load("c").settings
        assert store.load("c").settings == _settings(first)
        gone = frozenset(first) - {"namesrv_addr"}
        store.change("c", second, gone)
        assert store.load("c").settings == _settings({**first, **second} | dict.fromkeys(gone, None))


def _settings(values: dict[str, object]) -> ContextSettings:
    given = {key: value for key, value in values.items() if value is not None}
    color = given.pop("color", None)
    return ContextSettings(**given, color=None if color is None else ContextColor(color))  # type: ignore[arg-type]


def test_a_file_is_its_owners_alone_and_is_never_half_written(store: ContextStore) -> None:
    path = store.add("live", {"namesrv_addr": ADDR}).path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    inode = path.stat().st_ino
    path.chmod(0o644)
    store.change("live", {"tls": True})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_ino != inode  # a new file replaced it; this one was not overwritten
    assert os.listdir(path.parent) == ["live.toml"]


def test_comments_and_order_stay_when_a_setting_changes(store: ContextStore) -> None:
    path = store.add("live", {"namesrv_addr": ADDR}).path
    path.write_text(f'# ours\ncluster = "A"  # the old one\n\nnamesrv_addr = "{ADDR}"\ncolor = "red"\n')
    store.change("live", {"cluster": "B"}, frozenset({"color"}))
    assert path.read_text() == f'# ours\ncluster = "B"  # the old one\n\nnamesrv_addr = "{ADDR}"\n'
    assert store.load("live").lines == {"cluster": 2, "namesrv_addr": 4}


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ('namesrv_addr = "h:1"\nprotectd = true\n', "live.toml:2: there is no setting 'protectd'", "protected?"),
        ('namesrv_addr = "h:1"\n\ntls = "yes"\n', "live.toml:3: tls must be true or false", ""),
        ('namesrv_addr = "h:1"\ncolor = "pink"\n', 'live.toml:2: color must be "red" or', ""),
        ('namesrv_addr = "h:1"\ntimeout_s = -1\n', "live.toml:2: timeout_s must be a number above 0", ""),
        ('namesrv_addr = "h:1"\ntimeout_s = inf\n', "live.toml:2: timeout_s must be a number above 0", ""),
        ('namesrv_addr = "h:1"\nparallel = 65\n', "live.toml:2: parallel must be a number from 1 to 64", ""),
        ('namesrv_addr = "h:1"\nparallel = 0\n', "live.toml:2: parallel must be a number from 1 to 64", ""),
        ('namesrv_addr = "h:1"\nparallel = "4"\n', "live.toml:2: parallel must be a number from 1 to 64", ""),
        ('namesrv_addr = "h:x"\n', "live.toml:1: 'h:x' is not an address", "host:port"),
        ('cluster = "A"\n', "live.toml: namesrv_addr is missing", "namesrv_addr ="),
        ('namesrv_addr = "h:1"\ncluster = A\n', "live.toml:2: Invalid value", "One setting a line"),
        ('namesrv_addr = "h:1"\ncluster = "A\n', "live.toml:2: ", "One setting a line"),
        ('namesrv_addr = "h:1"\n[tls]\nca = "x"\n', "live.toml:2: tls must be true or false", ""),
        (
            'namesrv_addr = "h:1"\nsecret_key = "hunter2"\n',
            "live.toml:2: secret_key holds no key",
            "env:PROD_SECRET_KEY",
        ),
        ("\x00", "live.toml:1: ", ""),
        ("x" * 300_000, "not a settings file", ""),
    ],
)
def test_a_file_that_is_not_as_it_should_be_says_where_and_what_to_do(
    store: ContextStore, text: str, said: str, hint: str
) -> None:
    path = store.add("live", {"namesrv_addr": ADDR}).path
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        store.load("live")
    assert said in str(caught.value)
    assert caught.value.hint is not None
    assert hint in caught.value.hint
    assert "context edit live" in caught.value.hint
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


def test_bytes_and_directories_are_no_settings(store: ContextStore) -> None:
    path = store.add("live", {"namesrv_addr": ADDR}).path
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="UTF-8"):
        store.load("live")
    path.unlink()
    path.mkdir()
    with pytest.raises(UsageError, match="not a settings file"):
        store.load("live")
    path.rmdir()
    os.mkfifo(path)  # reading it would never end
    with pytest.raises(UsageError, match="not a settings file"):
        store.load("live")


def test_a_change_that_would_break_a_file_is_not_made(store: ContextStore) -> None:
    path = store.add("live", {"namesrv_addr": ADDR}).path
    before = path.read_text()
    for values, unset in (({"secret_key": "plain"}, frozenset()), ({}, frozenset({"namesrv_addr"}))):
        with pytest.raises(UsageError):
            store.change("live", values, unset)
    with pytest.raises(UsageError):
        store.replace_text("live", "nonsense")
    assert path.read_text() == before


@pytest.mark.parametrize("name", ["", "-", "none", ".hidden", "a/b", "../up", "a b", "x" * 65, "$(id)", "ä"])
def test_a_name_is_one_that_a_shell_and_a_file_system_take_as_it_is(store: ContextStore, name: str) -> None:
    with pytest.raises(UsageError):
        store.add(name, {"namesrv_addr": ADDR})
    assert store.names() == []


def test_a_name_is_given_once(store: ContextStore) -> None:
    store.add("live", {"namesrv_addr": ADDR, "cluster": "A"})
    with pytest.raises(UsageError, match="already"):
        store.add("live", {"namesrv_addr": ADDR})
    assert store.load("live").settings.cluster == "A"
    with pytest.raises(NotFoundError) as caught:
        store.load("lvie")
    assert caught.value.hint == "Did you mean live?"


def test_one_is_in_use_and_minus_is_the_one_before(store: ContextStore) -> None:
    for name in ("a", "b"):
        store.add(name, {"namesrv_addr": ADDR})
    assert store.name_in_use() is None
    with pytest.raises(NotFoundError):
        store.use("-")
    chosen = []
    for word in ("a", "b", "-", "-", "-", "none", "-", "-", "none", "none", "-"):
        store.use(word)
        chosen.append(store.name_in_use())
    assert chosen == ["a", "b", "a", "b", "a", None, "a", None, None, None, "a"]


def test_a_name_that_does_not_exist_is_not_put_into_use(store: ContextStore) -> None:
    store.add("a", {"namesrv_addr": ADDR})
    store.use("a")
    with pytest.raises(NotFoundError):
        store.use("b")
    assert store.name_in_use() == "a"


def test_what_is_removed_is_no_longer_in_use_nor_the_one_before(store: ContextStore) -> None:
    for name in ("a", "b"):
        store.add(name, {"namesrv_addr": ADDR})
        store.use(name)
    store.remove("b")
    assert (store.names(), store.in_use()) == (["a"], None)
    assert store.use("-") is not None
    store.remove("a")
    assert (store.names(), store.in_use()) == ([], None)
    with pytest.raises(NotFoundError):
        store.remove("a")


def test_one_in_use_whose_file_is_gone_says_so(store: ContextStore) -> None:
    path = store.add("a", {"namesrv_addr": ADDR}).path
    store.use("a")
    path.unlink()
    with pytest.raises(NotFoundError, match="there is no context a, and it is in use") as caught:
        store.in_use()
    assert caught.value.hint is not None
    assert "context use NAME, or none" in caught.value.hint


def test_nonsense_in_the_file_of_the_one_in_use_is_none(store: ContextStore) -> None:
    store.in_use_path.parent.mkdir(parents=True)
    for text in ("", "\n", "../../etc/passwd\n", "a b\nc\n"):
        store.in_use_path.write_text(text)
        assert store.name_in_use() is None


def test_broken_ones_do_not_hide_the_others(store: ContextStore) -> None:
    for name in ("a", "b", "c"):
        store.add(name, {"namesrv_addr": ADDR})
    store.path("b").write_text("nonsense")
    (store.folder / "notes.txt").write_text("")
    problems: list[Exception] = []
    assert [context.name for context in store.load_all(problems.append)] == ["a", "c"]
    assert len(problems) == 1


def test_a_path_in_a_file_counts_from_there(
    store: ContextStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", "/home/op")
    store.add("a", {"namesrv_addr": ADDR, "tls_ca": "ca.pem", "tls_cert": "~/c.pem", "tls_key": "/k.pem"})
    settings = store.load("a").settings
    assert settings.tls_ca == str(store.folder / "ca.pem")
    assert (settings.tls_cert, settings.tls_key) == ("/home/op/c.pem", "/k.pem")


def test_a_directory_that_cannot_be_written_is_said(store: ContextStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null")
    with pytest.raises(UsageError, match="Not a directory"):
        ContextStore().add("a", {"namesrv_addr": ADDR})


def test_of_two_commands_that_change_a_context_none_loses_what_the_other_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second wrote what it had read before the first wrote."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    store = ContextStore()
    store.add("dev", {"namesrv_addr": ADDR})
    text = store.read_text("dev")
    with alone_in(store.folder):
        other = Thread(target=store.change, args=("dev", {"parallel": 5}))
        other.start()
        store.path("dev").write_text(f"{text}timeout_s = 3.0\n")
    other.join()
    found = store.load("dev").settings
    assert (found.timeout_s, found.parallel) == (3.0, 5)
