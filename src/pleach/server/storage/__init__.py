"""What a broker process has on disk: its database, what a commit changes in it, copies of it, and when it is committed.

database.py   files and tables, in SQLite               records.py    the rows that a commit changes
store.py      state, journal, sessions and outboxes     fill.py       a store copied in chunks while it is in use
outboxes.py   who has not confirmed which row           replica.py    a store on another machine, by records and a fill
recovery.py   an endpoint from its store                committer.py  group commit, and what follows (outgoing.py)

Imports core/ and disk/; the committer also net/, and the connections, features and settings of a broker process. Which
process opens a store, and as whose copy, is decided in server/opening.py and server/standby/.
"""
