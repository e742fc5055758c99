"""Every error this program raises on purpose, by its cause.

    ColocError
    ├── ProtocolError
    │   ├── LocalProtocolError     ours: we were about to break the wire's rules
    │   └── RemoteProtocolError    the peer's: it broke them; the connection is lost
    ├── TransportLost              the peer's: the socket ended
    ├── SettingsError              the operator's: file, flag or command line
    ├── KernelInterfaceError       the kernel's: a file under /sys or /proc refused us
    └── RuntimeRefused             the runtime's: a call of ours to it failed

Foreign exceptions are turned into one of these where they enter (chained with `from`). A cgroup
file that is missing is a `None` reading, not an error. ttrpc keeps errors of its own, so that it
can be lifted out; `nri` maps them. A plain exception out of the floors 0–3 is a bug.
"""


class ColocError(Exception):
    """Root of the errors that this program raises on purpose; its text is fit for an operator."""


class ProtocolError(ColocError):
    """A rule of the wire was broken."""


class LocalProtocolError(ProtocolError):
    """We were about to break a rule of the wire; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer broke a rule of the wire; the connection cannot be used any more."""


class TransportLost(ColocError):
    """The socket ended or failed; reconnecting is the cure."""


class SettingsError(ColocError):
    """The operator's configuration cannot be used; each problem has its cause, its place and a remedy.

    `str` has one problem a line, for a terminal. `sentence` has them on one line, for logs, audit and readiness.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems

    @property
    def sentence(self) -> str:
        """Return all problems on one line; more than one are counted and numbered."""
        if len(self.problems) < 2:
            return "".join(self.problems)
        numbered = (f"({number}) {problem}" for number, problem in enumerate(self.problems, 1))
        return f"{len(self.problems)} problems: {'; '.join(numbered)}"


class KernelInterfaceError(ColocError):
    """A kernel file could not be read or written."""

    def __init__(self, path: str, action: str, reason: str) -> None:
        super().__init__(f"cannot {action} {path}: {reason}")
        self.path = path
        self.action = action
        self.reason = reason

    def as_value(self) -> "KernelInterfaceError":
        """Return an equal error that was never raised, to be kept or handed on.

        A raised exception holds the frames that it passed through, their callers, and all local variables of them. If
        an object in one of these frames keeps the exception, that is a cycle, which only the garbage collector ends.
        """
        return KernelInterfaceError(self.path, self.action, self.reason)


class RuntimeRefused(ColocError):
    """The container runtime answered a call of ours with an error."""


def blame(error: BaseException) -> str:
    """Return the owner of an error by the table above; any other exception is ours."""
    match error:
        case RemoteProtocolError() | TransportLost():
            return "the peer's"
        case SettingsError():
            return "the operator's"
        case KernelInterfaceError():
            return "the kernel's"
        case RuntimeRefused():
            return "the runtime's"
    return "ours"
