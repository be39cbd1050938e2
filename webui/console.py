"""The console's shared objects, created once for all request handlers.

Built by `webui.http.app.make_console`. Has no state of its own.
"""

from collections.abc import Callable

import msgspec
import trio

from broker.config.sections.console import ConsoleConfig
from webui.backend import Backend
from webui.decoding.decoder import Decoder
from webui.fair_queue import FairQueue
from webui.insights.reader import Reader
from webui.insights.what_if import WhatIf
from webui.live.broadcaster import Live
from webui.security.authenticator import Authenticator
from webui.security.gate import Gate
from webui.security.oidc import Oidc


class Console(msgspec.Struct, frozen=True):
    """The shared objects. `large_bodies` lets one large body be parsed at a time, `downloads` one large
    record be sent.
    """

    backend: Backend
    settings: ConsoleConfig
    authenticator: Authenticator
    gate: Gate
    live: Live
    now_ms: Callable[[], int]
    insights: Reader
    what_if: WhatIf
    oidc: Oidc
    fair_queue: FairQueue = msgspec.field(default_factory=FairQueue)
    decoder: Decoder = msgspec.field(default_factory=Decoder)
    large_bodies: trio.Semaphore = msgspec.field(default_factory=lambda: trio.Semaphore(1))
    downloads: trio.Semaphore = msgspec.field(default_factory=lambda: trio.Semaphore(1))
