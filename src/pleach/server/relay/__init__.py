"""Relays: a broker passes on connections between two others that cannot reach each other (docs/protocols/relay.md).

settings.py        [relay]                    choice.py     when others are asked, and when a link goes back
relayed_links.py   links of this broker       tunnels.py    those of others
replacement.py     links that are relayed for long become ones of the relay

Imports net/ and the parts of a broker process.
"""
