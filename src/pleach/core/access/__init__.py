"""Rights of principals, as filters: what they may publish, subscribe to and advertise, and what is hidden from them.

Pure, and part of a broker's state: the same right gives the same answer in every world (docs/protocols/rights.md).
"""
