"""Mutation testing: small changes to the code, and whether a test notices.

`sites` finds where a change is possible, `draw` chooses some of them, `reach` finds out which tests come past each,
`forked` and `fresh` run these tests against the changed code, `verdicts` keeps what came of it, `page` writes it down.
`tools/mutants.py` is the command.
"""
