"""Who is who and who may what: certificates, the membership list, principals, their rights, keys and tokens.

No sockets here: `net/` and `client/` prove an identity with this, `server/door/` decides by it. It imports filters and
rights of the core, and `errors`.
"""
