"""Serve the admin API over gRPC: turn messages into orders and back, and our refusals into gRPC status codes.

Importing this module imports grpc, which costs megabytes. So callers import it at the first connection, not earlier.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import grpc

from nri_coloc._pb import admin_pb2 as pb
from nri_coloc._pb import admin_pb2_grpc
from nri_coloc.service.orders import Caller, OrderDeclined, OrderInvalid, OrderLate, Orders

THREADS: Final = 4
MAX_CALLS: Final = 8
STOP_S: Final = 0.5
_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 64 * 1024),
    ("grpc.max_concurrent_streams", MAX_CALLS),
)
_CODES: Final = {
    OrderDeclined: grpc.StatusCode.FAILED_PRECONDITION,
    OrderInvalid: grpc.StatusCode.INVALID_ARGUMENT,
    OrderLate: grpc.StatusCode.DEADLINE_EXCEEDED,
}

CallerOf = Callable[[str], Caller | None]
Result = TypeVar("Result")


class AdminServer:
    """The gRPC server of the admin API. It listens as soon as it is constructed."""

    def __init__(self, path: str, orders: Orders, caller_of: CallerOf, report: Callable[[str], None]) -> None:
        self._path = path
        pool = ThreadPoolExecutor(THREADS, thread_name_prefix="admin-call")
        self._pool = pool
        self._server = grpc.server(pool, options=_OPTIONS, maximum_concurrent_rpcs=MAX_CALLS)
        service = _Service(orders, caller_of, report)
        admin_pb2_grpc.add_AdminServicer_to_server(service, self._server)  # type: ignore[no-untyped-call]  # generated
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def stop(self) -> None:
        """End running calls and remove the socket, so that the next server can use the same path."""
        self._server.stop(None).wait(STOP_S)
        self._pool.shutdown(wait=False, cancel_futures=True)
        with suppress(OSError):
            Path(self._path).unlink(missing_ok=True)


class _Service(admin_pb2_grpc.AdminServicer):
    def __init__(self, orders: Orders, caller_of: CallerOf, report: Callable[[str], None]) -> None:
        self._orders = orders
        self._caller_of = caller_of
        self._report = report

    def PauseLending(  # noqa: N802 - the contract's name, as below
        self, request: pb.PauseLendingRequest, context: grpc.ServicerContext
    ) -> pb.PauseLendingResponse:
        until = self._ordered(
            context, lambda caller: self._orders.pause_lending(caller, request.seconds, request.reason)
        )
        return pb.PauseLendingResponse(until=until)

    def ResumeLending(  # noqa: N802
        self, _request: pb.ResumeLendingRequest, context: grpc.ServicerContext
    ) -> pb.ResumeLendingResponse:
        return pb.ResumeLendingResponse(was_paused=self._ordered(context, self._orders.resume_lending))

    def LendingOff(  # noqa: N802
        self, request: pb.LendingOffRequest, context: grpc.ServicerContext
    ) -> pb.LendingOffResponse:
        grace_s = request.grace_seconds if request.HasField("grace_seconds") else None
        ends = self._ordered(
            context, lambda caller: self._orders.lending_off(caller, grace_s, drain=request.drain)
        )
        return pb.LendingOffResponse(
            because=ends.because,
            until=ends.until,
            not_kept=ends.not_kept,
            running=[pb.RunningPod(name=pod.name, why=pod.why) for pod in ends.running],
            outside=ends.outside,
        )

    def LendingOn(  # noqa: N802
        self, _request: pb.LendingOnRequest, context: grpc.ServicerContext
    ) -> pb.LendingOnResponse:
        begins = self._ordered(context, self._orders.lending_on)
        return pb.LendingOnResponse(was_off=begins.was_off, because=begins.because, not_kept=begins.not_kept)

    def Reload(self, _request: pb.ReloadRequest, context: grpc.ServicerContext) -> pb.ReloadResponse:  # noqa: N802
        problem = self._ordered(context, self._orders.reload)
        return pb.ReloadResponse(valid=not problem, problem=problem)

    def Repair(self, _request: pb.RepairRequest, context: grpc.ServicerContext) -> pb.RepairResponse:  # noqa: N802
        found = self._ordered(context, self._orders.repair)
        return pb.RepairResponse(looked_at=found.looked_at, repaired=found.sentences)

    def Compare(self, _request: pb.CompareRequest, context: grpc.ServicerContext) -> pb.CompareResponse:  # noqa: N802
        found = self._ordered(context, self._orders.compare)
        return pb.CompareResponse(complete=found.complete, detail=found.detail)

    def Evict(self, request: pb.EvictRequest, context: grpc.ServicerContext) -> pb.EvictResponse:  # noqa: N802
        found = self._ordered(
            context,
            lambda caller: self._orders.evict(caller, request.namespace, request.pod, request.reason),
        )
        return pb.EvictResponse(
            outcome=found.outcome.value,
            detail=found.detail,
            retry_after_s=found.retry_after_s,
            order_id=found.id,
        )

    def _ordered(self, context: grpc.ServicerContext, work: Callable[[Caller], Result]) -> Result:
        """Return the result of an order; a refusal ends the call with its gRPC status code."""
        caller = self._caller_of(context.peer())
        if caller is None:
            _abort(context, grpc.StatusCode.PERMISSION_DENIED, "calls must come through the admin socket")
        try:
            return work(caller)
        except (OrderDeclined, OrderInvalid, OrderLate) as error:
            _abort(context, _CODES[type(error)], str(error))
        except Exception as error:  # noqa: BLE001 - one failed call, not a dead thread
            self._report(f"an admin call failed: {type(error).__name__}: {error}")
            _abort(
                context,
                grpc.StatusCode.INTERNAL,
                "the order failed by an error in the daemon; its log has the reason",
            )


def _abort(context: Any, code: grpc.StatusCode, sentence: str) -> NoReturn:
    context.abort(code, sentence)
    raise AssertionError("abort always raises")
