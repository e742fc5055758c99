"""The life of a plugin's session, as a table: state, input, next state.

A missing entry is the protocol error. The table says only what order things may come in; what to do
about them is the session's business.
"""

from enum import StrEnum


# Strings, for these hash themselves; what an Enum does in Python instead, each hook would pay for twice.
class State(StrEnum):
    CONNECTED = "connected"
    REGISTERING = "registering"
    CONFIGURED = "configured"
    SYNCHRONIZING = "synchronizing"
    SERVING = "serving"
    CLOSED = "closed"


class Input(StrEnum):
    REGISTER = "register"  # ours
    REGISTERED = "registered"
    REFUSED = "refused"
    CONFIGURE = "configure"
    SYNCHRONIZE = "synchronize"
    SYNCHRONIZED = "synchronized"  # ours: the answer to its last part
    HOOK = "hook"
    PUSH = "push"  # ours: UpdateContainers


# Registration is answered at any time up to the first hook: Configure overtakes the answer.
# Hooks without a Synchronize: containerd 1.7.24 never synchronises a plugin that it launched itself.
# A second Synchronize is accepted, and hooks beside it, which may have been on their way.
TRANSITIONS: dict[State, dict[Input, State]] = {
    State.CONNECTED: {
        Input.REGISTER: State.REGISTERING,
    },
    State.REGISTERING: {
        Input.REGISTERED: State.REGISTERING,
        Input.REFUSED: State.CLOSED,
        Input.CONFIGURE: State.CONFIGURED,
    },
    State.CONFIGURED: {
        Input.REGISTERED: State.CONFIGURED,
        Input.REFUSED: State.CLOSED,
        Input.CONFIGURE: State.CONFIGURED,
        Input.SYNCHRONIZE: State.SYNCHRONIZING,
        Input.HOOK: State.CONFIGURED,
    },
    State.SYNCHRONIZING: {
        Input.REGISTERED: State.SYNCHRONIZING,
        Input.REFUSED: State.CLOSED,
        Input.SYNCHRONIZE: State.SYNCHRONIZING,
        Input.SYNCHRONIZED: State.SERVING,
        Input.HOOK: State.SYNCHRONIZING,
    },
    State.SERVING: {
        Input.REGISTERED: State.SERVING,
        Input.REFUSED: State.CLOSED,
        Input.SYNCHRONIZE: State.SYNCHRONIZING,
        # Each of two Synchronize calls is answered, and the first answer has led here already.
        Input.SYNCHRONIZED: State.SERVING,
        Input.HOOK: State.SERVING,
        Input.PUSH: State.SERVING,
    },
    State.CLOSED: {},
}
