"""SwapLink (S0 §IV-A): the tree a–b–c becomes a–c–b while events flow (docs/protocols/swaplink.md).

transitions  roles, phases and TRANSITIONS: which message is legal when, and what it leads to
paths        the four ChangePaths of a swap: who holds what until which `close`
state        one swap at one of its brokers; the only place where its phase changes
machine      S0's messages 1 to 12
events       what happens to events and routing messages at the seam meanwhile
sides        the routing tables that change hands
failures     what S0 leaves out: leases, brokers that lose their memory

It may import what the rest of `overlay/` may, and no other protocol.

Imports seam.py, context.py and routing/.
"""
