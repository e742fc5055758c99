"""The admin socket and what carries its orders out, as one thing that the main thread turns.

That there is no socket is no reason not to run: it is said in the log and in the readiness' detail, and tried again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from nri_coloc.daemon.admin_orders import AdminOrders, Staff
from nri_coloc.daemon.report import Report
from nri_coloc.service.admin_gate import Gate
from nri_coloc.service.orders import Caller

if TYPE_CHECKING:
    from nri_coloc.service.admin_calls import AdminServer


class AdminSide:
    """`look` and `close` are the main thread's; there is no socket before the first look."""

    def __init__(self, path: str, staff: Staff, report: Report) -> None:
        self._orders = AdminOrders(staff, report)
        self._report = report
        self._gate = Gate(path, self._make, self._orders.turned_away, report.log.warning)

    @property
    def problem(self) -> str:
        """Why there is no socket, "" while there is one."""
        return self._gate.problem

    def look(self, now: float) -> None:
        """Keep the socket in its place, and do what was ordered."""
        self._gate.look()
        self._orders.look(now)

    def close(self) -> None:
        """Send away whoever waits, and take the socket away."""
        self._orders.stop()
        self._gate.close()

    def _make(self, path: str, caller_of: Callable[[str], Caller | None]) -> "AdminServer":
        from nri_coloc.service.admin_calls import AdminServer  # grpc, at the first connection

        return AdminServer(path, self._orders, caller_of, self._report.log.error)
