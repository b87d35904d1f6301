"""A broker in a ring: it joins by one address, gets its place in the tree from the ring, and the tree follows the ring.

settings.py    [ring]                                     datagrams.py   encoding and checks of UDP messages
driver.py      a RingHost over datagrams and timers       entrance.py    into the ring, and then into the tree
steward.py     the root makes the tree follow the ring    member.py      the feature of a broker process
operate/ring_seats.py  what each member reports of its place

Imports core/ring/, operate/ and the parts of a broker process.
"""
