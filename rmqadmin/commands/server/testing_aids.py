"""What tests of applications ask of ``rmqserver``: faults, snapshots, a reset."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, ParamSpec, TypeVar

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, NamedCluster
from rmqadmin.cli.options.common_options import OptionGroup, Value, argument
from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import REPLACE, Changes, FieldChange, Step, carry_out
from rmqadmin.core.names import is_made_by_brokers, topics_of_servers
from rmqadmin.core.results import FoundRows, Row, doc, row_of
from rmqproto.codes import ResponseCode
from rmqproto.errors import NotFoundError, RefusedError, UsageError
from rmqproto.fault_rules import parse_rule
from rmqproto.names import is_system_group
from rmqproto.wording import counted

P = ParamSpec("P")
T = TypeVar("T")

_NAMES_MAX = 8

_HINTS: dict[int, str] = {
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "Only rmqserver serves this, and nothing was changed: is this one of"
    " Apache's brokers?",
    ResponseCode.NO_PERMISSION: "A broker that keeps its store serves them if it was started with --test-requests on.",
    ResponseCode.QUERY_NOT_FOUND: "`rmqadmin snapshot ls` lists those that are there.",
}


class AidedBrokers(OptionGroup, frozen=True):
    """Which brokers."""

    broker_addr: BrokerAddr = None
    cluster_name: NamedCluster = None

    def addrs(self, admin: AdminClient) -> list[str]:
        """As of ``targets.masters``; if nothing is named, the only broker that the name server knows. With
        ``broker_addr`` no server is asked, because a fault rule may make any request fail."""
        if self.broker_addr is not None or self.cluster_name is not None:
            return targets.masters(admin, self.broker_addr, self.cluster_name)
        info = admin.cluster_info()
        brokers = targets.by_selected_addr(targets.all_brokers(info))
        if len(brokers) == 1:
            return [*brokers]
        hint = targets.NO_BROKER_HINT
        if brokers:
            names = [f"-b {broker.broker_name}" for broker in brokers.values()]
            shown = names[:_NAMES_MAX] + ["another"] * (len(names) > _NAMES_MAX)
            clusters = " or ".join(f"-c {name}" for name in sorted(info.cluster_addr_table))
            options = f"{', '.join(shown[:-1])} or {shown[-1]}"
            hint = f"There are {counted(len(brokers), 'broker')}: add {options}; {clusters} means every master."
        raise UsageError("Missing required option: -b or -c", hint=hint)


def own_answer(ask: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """The result of ``ask``. RefusedError with a hint why a broker does not serve requests for tests."""
    try:
        return ask(*args, **options)
    except RefusedError as error:
        error.hint = _HINTS.get(error.code, error.hint)
        raise


def contents(admin: AdminClient, addr: str) -> dict[str, int]:
    """How many topics and groups users made on a broker."""
    servers = topics_of_servers(admin.cluster_info())
    topics = admin.all_topics(addr).topic_config_table
    groups = admin.all_groups(addr).subscription_group_table
    return {
        "topics": sum(not is_made_by_brokers(topic, servers) for topic in topics),
        "groups": sum(not is_system_group(group) for group in groups),
    }


def set_faults(admin: AdminClient, addrs: Sequence[str], rules: Sequence[str], *, dry_run: bool) -> Changes:
    """Makes requests fail by these rules, which replace the earlier ones."""
    steps = []
    for addr in addrs:
        before = [state.rule for state in own_answer(admin.faults, addr)]
        changes = [FieldChange("rules", before, list(rules))] if before != rules else []
        act = partial(own_answer, admin.set_faults, addr, rules)
        steps.append(Step(addr, "change" if changes else "keep", changes, act))
    return Changes(carry_out(steps, dry_run=dry_run))


SnapshotName = Annotated[str, Value.NAME, argument("Letters, digits, - and _, up to 64.")]


def take_back(call: Call, addrs: Sequence[str], action: str, to: str, act: Callable[[str], None]) -> Changes:
    """Takes brokers back to the state that ``to`` describes; their present state is lost. Asks the user to type their
    names first; where nobody can be asked, UsageError without ``--yes``."""
    admin = call.admin
    steps = []
    for addr in addrs:
        changes = [FieldChange(what, count, to) for what, count in contents(admin, addr).items()]
        steps.append(Step(addr, action, changes, partial(own_answer, act, addr)))
    preview = Changes(carry_out(steps, dry_run=True))
    if call.dry_run:
        return preview
    names = ", ".join(admin.broker_config(addr)["brokerName"] for addr in addrs)
    call.confirm(f"What {names} has now is lost.", names, preview=preview)
    return Changes(carry_out(steps, dry_run=False))


class FaultRow(Row, frozen=True):
    rule: Annotated[str, doc("which requests go wrong, and how", key=True)]
    hits: Annotated[int, doc("requests that went wrong by it", vital=True)]
    broker_addr: Annotated[str, doc("address of the broker")]


class Faults(FoundRows[FaultRow], frozen=True):
    """The rules, in the order in which they are looked at."""


def fault_ls(call: Call, where: AidedBrokers) -> Faults:
    """Rules are set by `fault set`, or come with the server (`rmqserver --fault`). Without -b and -c, shows those of
    the only broker.

      rmqadmin fault ls
      rmqadmin fault ls -b 127.0.0.1:10911
    """
    admin = call.admin
    answers = call.answers.of(lambda addr: own_answer(admin.faults, addr), where.addrs(admin)).items()
    return Faults([row_of(FaultRow, state, broker_addr=addr) for addr, states in answers for state in states])


def fault_set(
    call: Call,
    rules: Annotated[list[str], Value.NAME, argument("REQUEST:WHAT[:WHICH], docs/testing.md.", metavar="RULE...")],
    where: AidedBrokers,
) -> Changes:
    """These rules replace the earlier ones at once. REQUEST is a name, a code, or * for all. WHAT is delay=TIME,
    error=CODE, drop, lose-answer or disconnect; WHICH narrows it down: share=0.1, count=2, topic=T, group=G. The first
    matching rule decides. While everything fails, -b is needed, because the name server does not answer either.

      rmqadmin fault set SEND_MESSAGE:error=SYSTEM_BUSY:count=2
      rmqadmin fault set PULL_MESSAGE:delay=200ms:share=0.1 SEND_MESSAGE:drop:topic=OrderTopic -b 127.0.0.1:10911
      rmqadmin fault set '*:disconnect:share=0.01' --dry-run
    """
    wanted = [parse_rule(rule).text for rule in rules]
    return set_faults(call.admin, where.addrs(call.admin), wanted, dry_run=call.dry_run)


def fault_clear(call: Call, where: AidedBrokers) -> Changes:
    """Removes all rules. With -b no name server is asked, so it works while everything fails.

    rmqadmin fault clear
    rmqadmin fault clear -b 127.0.0.1:10911
    """
    return set_faults(call.admin, where.addrs(call.admin), [], dry_run=call.dry_run)


class SnapshotRow(Row, frozen=True):
    snapshot: Annotated[str, doc("its name", key=True)]
    broker_addr: Annotated[str, doc("address of the broker that keeps it")]


class Snapshots(FoundRows[SnapshotRow], frozen=True):
    """The snapshots, by name."""


def snapshot_ls(call: Call, where: AidedBrokers) -> Snapshots:
    """A snapshot lasts as long as the store. Without -b and -c, shows those of the only broker.

    rmqadmin snapshot ls
    rmqadmin snapshot ls -b 127.0.0.1:10911
    """
    admin = call.admin
    answers = call.answers.of(lambda addr: own_answer(admin.snapshots, addr), where.addrs(admin)).items()
    return Snapshots([SnapshotRow(snapshot=name, broker_addr=addr) for addr, names in answers for name in names])


def snapshot_save(call: Call, name: SnapshotName, where: AidedBrokers) -> Changes:
    """Keeps topics, groups, offsets and messages, delayed and timed ones included, and replaces an older snapshot of
    that name, after the snapshot's name was typed, or with --yes. The broker is away for some tens of milliseconds, and
    clients come back as after a restart.

      rmqadmin snapshot save a-day
      rmqadmin snapshot save a-day -b 127.0.0.1:10911 --dry-run
    """
    admin = call.admin
    steps = []
    for addr in where.addrs(admin):
        is_there = name in own_answer(admin.snapshots, addr)
        act = partial(own_answer, admin.save_snapshot, addr, name)
        steps.append(Step(addr, REPLACE if is_there else "create", [], act))
    if older := [step.target for step in steps if step.action == REPLACE]:
        call.confirm(f"This replaces the snapshot {name} of {', '.join(older)}.", name)
    return Changes(carry_out(steps, dry_run=call.dry_run))


def snapshot_restore(call: Call, name: SnapshotName, where: AidedBrokers) -> Changes:
    """Everything made or sent since the snapshot is lost. The snapshot stays. The broker is away for some tens of
    milliseconds, and clients come back as after a restart. Asks for the broker's name; in a script, --yes is needed.

      rmqadmin snapshot restore a-day --dry-run
      rmqadmin snapshot restore a-day --yes
    """
    admin = call.admin
    addrs = where.addrs(admin)
    for addr in addrs:
        names = own_answer(admin.snapshots, addr)
        if name not in names:
            known = ", ".join(names) or "none"
            raise NotFoundError(f"{addr} has no snapshot {name}", hint=f"It has: {known}.")
    return take_back(call, addrs, "restore", f"as in {name}", lambda addr: admin.restore_snapshot(addr, name))


def server_reset(call: Call, where: AidedBrokers) -> Changes:
    """Deletes topics, groups, offsets and messages, then loads again what `rmqserver --seed` says. Snapshots, rules of
    `fault set` and settings stay. Asks for the broker's name; in a script, --yes is needed.

      rmqadmin server reset --dry-run
      rmqadmin server reset -b 127.0.0.1:10911 --yes
    """
    admin = call.admin
    addrs = where.addrs(admin)
    for addr in addrs:  # brokers refuse here, before anybody is asked to type a name
        own_answer(admin.snapshots, addr)
    return take_back(call, addrs, "reset", "as at its start", admin.reset_broker)
