"""A broker in a ring: it joins by one address, finds its place in the tree, and the tree follows the ring.

settings.py    [ring]                                     datagrams.py   what goes over the network, and what is ignored
driver.py      a RingHost over datagrams and timers       entrance.py    into the ring, and then into the tree
steward.py     the root weaves the tree after the ring    departure.py   out of the tree, and then out of the ring
operate/ring_seats.py  what each member says of its place         member.py  all of it, for a broker process
"""
