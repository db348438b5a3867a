"""Turns options that choose among a group's dead letters into a request of ``rmqreplay``. ``dlq show`` takes
the same conditions, but reads the letters itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.replay_options import LetterOptions
from rmqadmin.cli.shared.replay_run import command_line

if TYPE_CHECKING:
    from rmqreplay.plans.request import ReplayRequest


def letters_request(call: Call, group: str, letters: LetterOptions) -> ReplayRequest:
    """A request to redrive all dead letters that the options choose to their origin topics. UsageError for inconsistent
    options."""
    from rmqreplay.plans.plan import Selection
    from rmqreplay.plans.request import ReplayRequest

    between, credentials = letters.between(call.now_ms(), call.notice), call.settings.credentials()
    return ReplayRequest(
        name_server=";".join(call.namesrv_addrs),
        dlq_group=group,
        start_ms=between.begin_ms,
        end_ms=between.end_ms,
        start_text=letters.start,
        end_text=letters.end,
        selection=Selection(ids=letters.ids or [], **letters.as_conditions()),
        command=command_line(credentials),
        credentials=credentials,
        tls=call.settings.tls_files(),
        address_map=call.settings.address_map(),
        client=call.connections,
    )
