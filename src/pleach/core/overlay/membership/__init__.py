"""AddBroker and RemoveBroker (S0 §IV-B, §IV-C; docs/protocols/membership.md): a new leaf, and a leaf less.

transitions  roles, phases and TRANSITIONS: which message is legal when, from whom, and what it leads to
state        one change of membership at one of its two brokers; the only place where its phase changes
machine      the messages of both operations
abandoning   what S0 leaves out: operators who think better of it
failures     what S0 leaves out: brokers that lose their memory
handover     what happens at the seam meanwhile; how a client's requests change hands

Imports seam.py, context.py and routing/.
"""
