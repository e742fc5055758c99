"""The runtime beside its hooks: the connection, its list of containers, and the specs that it stores.

`comparison` compares the list of NRI with CRI's. `pusher` sends values to stored specs, one container at a time, over
CRI or NRI. `listing` reads a list without being a plugin.
"""
