"""The files of one broker: its settings, short and with comments, and who may do what."""

from __future__ import annotations

from pleach.founding.layout import BrokerPlace, NewNetwork

SETTINGS, ACCESS, TLS, DATA = "broker.toml", "access.toml", "tls", "data"
APPLICATION, OPERATOR = "app", "operator"  # principals


def settings_file(network: NewNetwork, broker: BrokerPlace) -> str:
    """Paths are those of the broker's own directory."""
    return "\n".join([*_own(broker), *_doors(network), "", *_parts(), "", *_ring(broker)]) + "\n"


def _own(broker: BrokerPlace) -> list[str]:
    lines = [
        f'name = "{broker.name}"',
        *([f'zone = "{broker.zone}"    # a copy is in another one, where it can be'] if broker.zone else []),
        f'client_listen = "{broker.client}"',
        f'peer_listen = "{broker.peer}"      # other brokers: TCP, and UDP for the ring',
        f'admin_listen = "{broker.admin}"     # operators: pleach overlay, /metrics, and /dashboard/ in a browser',
        f'data_dir = "{DATA}"',
    ]
    return ["# Every key, and what else there is: docs/reference/configuration.md", *lines]


def _doors(network: NewNetwork) -> list[str]:
    if network.is_secured:
        return [f'tls = {{ directory = "{TLS}" }}', f'access = {{ file = "{ACCESS}" }}']
    if network.is_insecure:
        return ["insecure = true    # whoever reaches the ports may do everything"]
    return []


def _parts() -> list[str]:
    return [
        "# A broker of a ring also has leases, a copy on another machine, the council, which moves links to where they",
        "# cost least, and relays for links whose way is cut. To do without one of them, at all brokers:",
        "# stabilise = false",
        "# standby = false",
        "# improve = false    # links are those of the ring then",
        "# relay = false",
    ]


def _ring(broker: BrokerPlace) -> list[str]:
    if not broker.join:
        return ["[ring]", "found = true    # the others join it"]
    seeds = ", ".join(f'"{seed}"' for seed in broker.join)
    return ["[ring]", f"join = [{seeds}]    # one that answers is enough", "join_seconds = 60.0"]


def access_file() -> str:
    return f"""\
# Who may do what; what is not written is denied. SIGHUP makes a broker read it again. docs/reference/access.md
[principals.{APPLICATION}]
names = ["{APPLICATION}", "{APPLICATION}-*"]    # of clients
publish = "TRUE"
subscribe = "TRUE"

[principals.{OPERATOR}]
verbs = ["read", "reweave", "move", "remove"]
"""
