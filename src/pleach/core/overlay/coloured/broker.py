"""A broker of a coloured network: the routing layer three times, and a keeper of its place in the tree.

    clients  ── (un)subscribe ──▶ plane NEW       events ──▶ plane of their colour
             ── publish ────────▶ plane CURRENT   recolourings, joins, requests ──▶ keeper

It meets the drivers' contract of a broker, like `Broker`, and shares routing with it; what that one has
of seam and protocols it does not need, for a tree here changes only between two colours.

Rule 1: an event keeps the colour of its publisher's broker (S1 §4.5.3): it passes one tree, and comes once.
Rule 2: a subscription goes out in the new colour. It is confirmed once that colour is old: then nobody publishes in
        any colour that does not know it.
Rule 3: an end of a subscription goes out in every colour: what nobody wants is missed in none.
Rule 4: a message of a colour that is new for its sender and old here has come before the recolouring that it belongs
        to: over a link of the next tree it may be faster than that over the current one. It waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, get_args

import msgspec

from pleach.core.effects import Effect, LinkDown, LinkUp, Send
from pleach.core.messages import (
    CLIENT_REQUESTS,
    OPERATOR,
    Attach,
    Attached,
    Carried,
    Carry,
    ClientRequest,
    Coloured,
    ColouredMessage,
    ColourStage,
    Detach,
    Farewell,
    Message,
    Node,
    OnBehalf,
    OperatorRequest,
    Publish,
    PublishRefused,
    Redirect,
    Renewed,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    pack,
    unpack,
)
from pleach.core.overlay.coloured.bounds import ColouredConfig
from pleach.core.overlay.coloured.client_handover import ClientHandover, HandoverState
from pleach.core.overlay.coloured.holding import Holding, HoldingState, Order
from pleach.core.overlay.coloured.keeper import ColouredPhase, Keeper, KeeperReaction, KeeperState
from pleach.core.overlay.coloured.planes import Planes, PlanesState
from pleach.core.routing.clients import ClientTable, refusal
from pleach.core.routing.router import Router, RoutingConfig
from pleach.errors import ProtocolError

EARLY_MAX: Final = 1_000_000  # messages that wait for the recolouring they belong to
HELD_MAX: Final = 1_000_000  # events that wait for the next recolouring
BETWEEN_BROKERS: frozenset[type] = frozenset(get_args(ColouredMessage))
OPERATOR_REQUESTS: frozenset[type] = frozenset(get_args(OperatorRequest))


class ColouredState(msgspec.Struct, frozen=True, array_like=True):
    """All of a coloured broker as plain data."""

    planes: PlanesState
    keeper: KeeperState
    holding: HoldingState
    guests: HandoverState
    early: list[tuple[Node, Coloured]]


class ColouredBroker:
    def __init__(
        self,
        name: Node,
        config: RoutingConfig,
        colouring: ColouredConfig,
        *,
        order: Order = Order.NONE,
        parent: Node | None = None,
        children: Iterable[Node] = (),
    ) -> None:
        """Without parent and children it is outside the tree, unless it is the first of the root group."""
        self.name = name
        self._colouring = colouring
        self._planes = Planes(config, parent, list(children))
        is_first = name == colouring.group[0]
        phase = ColouredPhase.ROOT if is_first else ColouredPhase.OUTSIDE if parent is None else ColouredPhase.MEMBER
        self._keeper = Keeper(name, colouring, self._planes, phase)
        self._holding = Holding(order)
        self._guests = ClientHandover()
        self._early: list[tuple[Node, Coloured]] = []
        self._links: set[Node] = set()  # to other brokers, open at this end

    # What drivers see of it ----------------------------------------------------------------------------------

    @property
    def router(self) -> Router:
        return self._planes.of(ColourStage.CURRENT).router

    @property
    def sessions(self) -> ClientTable:
        return self._planes.of(ColourStage.CURRENT).sessions

    @property
    def planes(self) -> Planes:
        return self._planes

    @property
    def phase(self) -> ColouredPhase:
        return self._keeper.phase

    @property
    def operation(self) -> str:
        """No operation locks it."""
        return ""

    @property
    def held_count(self) -> int:
        """Events that wait for the next recolouring."""
        return self._holding.count

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        return self._linked(self._handled(sender, message, now))

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:  # noqa: ARG002 there is one
        return self._linked(self._followed(self._keeper.timer(now)))

    def resume(self, *, now: float) -> Sequence[Effect]:
        """Links may have been lost with the memory of them: all that are wanted are asked for again."""
        self._links = {*self._planes.neighbours()} - {self.name}
        return [*(LinkUp(to) for to in sorted(self._links)), *self._keeper.resume(now)]

    # Messages ------------------------------------------------------------------------------------------------

    def _handled(self, sender: Node, message: Message, now: float) -> Sequence[Effect]:
        kind = message.__class__
        if kind is Coloured:
            return self._tinted(sender, message)  # type: ignore[arg-type]
        if kind is OnBehalf:
            return self._on_behalf(message)  # type: ignore[arg-type]
        if kind in BETWEEN_BROKERS:
            return [*self._redirected(message), *self._followed(self._keeper.handle(sender, message, now))]
        if kind in CLIENT_REQUESTS:
            return self._asked_for(sender, message)  # type: ignore[arg-type]
        if kind is Farewell:
            return [Send(self._guests.state.relay, OnBehalf(sender, Farewell()))]
        if kind in OPERATOR_REQUESTS and sender == OPERATOR:
            return self._asked(message, now)  # type: ignore[arg-type]
        raise ProtocolError(self.name, sender, message, "no part of a coloured broker owns this message")

    def _tinted(self, sender: Node, message: Coloured) -> Sequence[Effect]:
        stage = self._planes.stage_of(message.colour)
        is_early = (message.stage is ColourStage.NEW and stage is ColourStage.OLD) or self._is_unborn
        if is_early and len(self._early) < EARLY_MAX:
            self._early.append((sender, message))
        is_late = (
            message.stage is ColourStage.OLD and stage is ColourStage.NEW
        )  # the table that it was meant for is gone
        return () if is_early or is_late else self._entered(sender, message, stage)

    @property
    def _is_unborn(self) -> bool:
        """Whether it waits for its first tree: some of that may know of it already."""
        return self.phase is ColouredPhase.OUTSIDE and not self._planes.neighbours()

    def _entered(self, sender: Node, message: Coloured, stage: ColourStage) -> Sequence[Effect]:
        plane = self._planes.of(stage)
        is_lost = message.hops > 2 * self._colouring.height
        if is_lost or not plane.hears(sender, is_downward=message.is_downward):
            return ()
        sends = plane.take(sender, message.message)
        return self._passed(stage, self._planes.tinted(stage, sends, hops=message.hops + 1))

    def _passed(self, stage: ColourStage, sends: Sequence[Send]) -> Sequence[Send]:
        if stage is not ColourStage.CURRENT:
            return sends
        return self._holding.passed(sends, self._planes.of(ColourStage.OLD).router.neighbours)

    def _followed(self, reaction: KeeperReaction) -> Sequence[Effect]:
        """What the keeper wants done; and after a recolouring, all that has waited for it."""
        effects = [*reaction.effects]
        if reaction.turned or reaction.has_begun:
            early, self._early = self._early, []
            for sender, message in early:
                effects += self._tinted(sender, message)
        if reaction.turned is None:
            return effects
        released = self._holding.turn(is_changed=reaction.turned.is_changed)
        effects += released.sends
        for client, publish in released.published:
            effects += self._publish(ColourStage.OLD, client, publish)
        for client in self._guests.turn():
            effects += self._arrived(client)
        if self.phase is ColouredPhase.OUTSIDE and not self._guests.state.relay:
            effects += self._leaves()
        return [*effects, *self._superfluous()]

    # Clients of a broker that leaves ---------------------------------------------------------------------------

    def _asked_for(self, client: Node, message: ClientRequest) -> Sequence[Effect]:
        relay = self._guests.state.relay
        if not relay:
            return () if self._guests.keeps(client, message) else self._request(client, message)
        here = self._everywhere(client, message) if isinstance(message, Unsubscribe | Detach) else ()
        return [*here, Send(relay, OnBehalf(client, message))]

    def _leaves(self) -> list[Send]:
        """From now on the parent serves the clients, but for events that are under way in the trees before."""
        self._guests.state.relay = relay = self._planes.of(ColourStage.CURRENT).parent or ""
        known = self._planes.own_events()
        return [Send(relay, OnBehalf(client, Attach(own))) for client, own in sorted(known.items())] if relay else []

    def _redirected(self, message: Message) -> list[Send]:
        """This broker has left, and all that was under way to its clients has come: they go."""
        if not self._guests.state.relay or message != Carried(self._keeper.leaving, ""):
            return []
        return [Send(client, Redirect(self._guests.state.relay)) for client in self._planes.own_events()]

    def _on_behalf(self, message: OnBehalf) -> Sequence[Effect]:
        client, request, relay = message.client, message.request, self._guests.state.relay
        if relay:
            return [Send(relay, message)]
        if isinstance(request, Farewell):
            return self._arrived(client)
        known = [LinkUp(client, is_client=True)] if self._guests.announce(client) else []
        return [*known, *self._request(client, request)]

    def _arrived(self, client: Node) -> list[Effect]:
        return [effect for kept in self._guests.arrived(client) for effect in self._request(client, kept)]

    # Clients -------------------------------------------------------------------------------------------------

    def _request(self, client: Node, message: ClientRequest) -> Sequence[Effect]:
        if not self._planes.knows(client) and not isinstance(message, Attach):
            return self.sessions.handle(client, message)  # which refuses it
        match message:
            case Attach(own_events):
                for stage in ColourStage:
                    self._planes.of(stage).sessions.handle(client, Attach(own_events))
                return [Send(client, Attached())]
            case Publish():
                return self._published(client, message)
            case Subscribe():
                return self._subscribe(client, message)
            case Unsubscribe(name):
                return [*self._everywhere(client, message), Send(client, Unsubscribed(name))]
            case Detach():
                return self._everywhere(client, message)
            case Renewed():
                return ()  # the planes are told anew, whatever was renewed
            case _:
                return [refusal(client, message, "a coloured network has no advertisements")]

    def _published(self, client: Node, publish: Publish) -> Sequence[Effect]:
        if self._holding.count >= HELD_MAX:
            return [
                Send(client, PublishRefused(publish.event.id, "too many events wait for the tree; publish it again"))
            ]
        return () if self._holding.holds(client, publish) else self._publish(ColourStage.CURRENT, client, publish)

    def _publish(self, stage: ColourStage, client: Node, publish: Publish) -> Sequence[Effect]:
        return self._passed(stage, self._planes.request(stage, client, publish))

    def _subscribe(self, client: Node, message: Subscribe) -> Sequence[Effect]:
        """The client says what it has, each time it renews: whatever is known of it otherwise is wrong."""
        name, wanted = message.subscription, message.filter
        told = self._planes.request(ColourStage.NEW, client, Subscribe(name, wanted, renews=True))
        if message.renews or (message.network_wide and not self._is_everywhere(client, message)):
            return told  # it will ask again
        return [*told, Send(client, Subscribed(name))]

    def _is_everywhere(self, client: Node, message: Subscribe) -> bool:
        sessions = self._planes.of(ColourStage.OLD).sessions
        return client in sessions and sessions.subscriptions(client).get(message.subscription) == message.filter

    def _everywhere(self, client: Node, message: Unsubscribe | Detach) -> list[Send]:
        """In every colour, as far as the client is known there. The answer to the client is the caller's."""
        sends: list[Send] = []
        for stage in ColourStage:
            sessions = self._planes.of(stage).sessions
            if client in sessions:
                told = self._planes.tinted(stage, sessions.handle(client, message))
                sends += [send for send in told if isinstance(send.message, Coloured)]
        return sends

    # Reconfigurations ----------------------------------------------------------------------------------------

    def _asked(self, request: OperatorRequest, now: float) -> Sequence[Effect]:
        return self._followed(self._keeper.handle(self.name, Carry(self.name, request), now))

    # Links ---------------------------------------------------------------------------------------------------

    def _linked(self, effects: Sequence[Effect]) -> Sequence[Effect]:
        """Open each link before it is used for the first time."""
        linked: list[Effect] = []
        for effect in effects:
            if (
                isinstance(effect, Send)
                and effect.message.__class__ in BETWEEN_BROKERS
                and effect.to not in self._links
            ):
                self._links.add(effect.to)
                linked.append(LinkUp(effect.to))
            elif isinstance(effect, LinkDown):
                self._links.discard(effect.to)
            linked.append(effect)
        return linked

    def _superfluous(self) -> list[LinkDown]:
        """Links that no colour has any more, and those that only something was asked over."""
        return [LinkDown(to) for to in sorted(self._links - {*self._planes.neighbours()})]

    # State ---------------------------------------------------------------------------------------------------

    def capture(self) -> bytes:
        planes, keeper = self._planes.capture(), self._keeper.capture()
        return pack(ColouredState(planes, keeper, self._holding.state, self._guests.state, self._early))

    def restore(self, data: bytes) -> None:
        state = unpack(data, ColouredState)
        self._planes.restore(state.planes)
        self._keeper.restore(state.keeper)
        self._holding.state = state.holding
        self._guests.state = state.guests
        self._early = list(state.early)
