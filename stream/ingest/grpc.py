"""OTLP over gRPC: `opentelemetry.proto.collector.trace.v1.TraceService/Export` and its like.

The server answers OK once the request is on disk. OTLP 1.x, "OTLP/gRPC":
https://opentelemetry.io/docs/specs/otlp/#otlpgrpc
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn, TypeAlias, cast

import grpc
import grpc.aio
from google.rpc.error_details_pb2 import RetryInfo

from ..error import StreamError
from .auth import Gate, check_token
from .endpoint import ENDPOINTS, OTHER_SERVICES, REFUSED, Endpoint
from .limits import Admission
from .meter import OtlpTransport, RequestKind
from .receive import PartialSuccess, RequestHandler
from .rejections import STATUS_CODES, Reason, Refused
from .request import Encoding
from .responses import export_response, status_of
from .server.connections import ConnectionLimits, ConnectionMeter
from .server.grpc_relay import Relay
from .server.sockets import listening

_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
_Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
_ExportMethod: TypeAlias = Callable[[AsyncIterator[bytes], _Context], Awaitable[bytes]]


class GrpcReceiver:
    """A gRPC server behind a relay; made, started and stopped in the event loop of its handler."""

    def __init__(self, server: grpc.aio.Server, relay: Relay) -> None:
        self._server, self._relay = server, relay

    async def start(self) -> None:
        """Begin to accept calls."""
        await self._server.start()
        self._relay.start()

    async def stop(self, grace_s: float) -> None:
        """Accept no new calls, and let running ones finish within the grace period."""
        await self._relay.close()
        await self._server.stop(grace_s)
        self._relay.remove()


def grpc_server(
    handler: RequestHandler,
    gate: Gate,
    host: str,
    port: int,
    connections: ConnectionLimits,
    meter: ConnectionMeter,
) -> tuple[GrpcReceiver, int]:
    """Return a server that listens on the address, and its port; port 0 stands for a free one.

    Raises StreamError (TRL713) where it cannot listen there, or where the folder for temporary files cannot
    hold the socket between relay and server.
    """
    sock = listening(host, port)
    limits = handler.limits
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", limits.unpacked_bytes_max),
            ("grpc.max_concurrent_streams", limits.requests_max),
            # gRPC announces the end of an idle connection before the relay closes it.
            ("grpc.max_connection_idle_ms", round(connections.idle_s * 500)),
        ]
    )
    relay = Relay(sock, connections, meter)
    server.add_generic_rpc_handlers(_services(handler, gate, relay))
    try:
        server.add_insecure_port(relay.target)
    except RuntimeError:
        sock.close()
        relay.remove()
        hint = "set TMPDIR to a folder that can be written to and has a short name"
        raise StreamError("TRL713", f"cannot listen on {relay.target}", hint) from None
    return GrpcReceiver(server, relay), sock.getsockname()[1]


def _services(handler: RequestHandler, gate: Gate, relay: Relay) -> list[grpc.GenericRpcHandler]:
    """Return the services, each with its method `Export`."""
    exports: dict[str, _ExportMethod] = {
        **{endpoint.service: _GrpcExport(endpoint, handler, gate, relay).export for endpoint in ENDPOINTS},
        **dict.fromkeys(OTHER_SERVICES, _GrpcUnsupported(handler).export),
    }
    return [
        grpc.method_handlers_generic_handler(service, {"Export": _handler(export)})
        for service, export in exports.items()
    ]


def _handler(export: _ExportMethod) -> grpc.RpcMethodHandler[bytes, bytes]:
    """Return the method without (de)serializers: its messages are bytes."""
    # The server reads a unary call as a stream of one message, so that it can refuse the call before that.
    behaviour: Any = export
    return cast("grpc.RpcMethodHandler[bytes, bytes]", grpc.stream_unary_rpc_method_handler(behaviour))


class _GrpcExport:
    """The handler of one signal's requests."""

    def __init__(self, endpoint: Endpoint, handler: RequestHandler, gate: Gate, relay: Relay) -> None:
        self._endpoint = endpoint
        self._handler, self._gate, self._relay = handler, gate, relay

    async def export(self, _messages: AsyncIterator[bytes], context: _Context) -> bytes:
        try:
            metadata = context.invocation_metadata() or ()
            check_token(self._gate, [str(value) for name, value in metadata if name == "authorization"])
            result = await self._handle(context)
        except Refused as refused:
            self._handler.meter.refused(refused.reason)
            await _abort(context, refused)
        return export_response(self._endpoint, result).SerializeToString()

    async def _handle(self, context: _Context) -> PartialSuccess:
        """Handle the message of a call that has the token."""
        connection = self._relay.connection(context.peer())
        if connection is None:
            raise Refused(Reason.GONE, "the connection was closed")
        self._relay.table.begin(connection)
        try:
            with self._handler.admissions.admit(connection.peer) as admission:
                data = await self._message(context, admission)
                admission.hold(len(data))
                kind = RequestKind(self._endpoint.signal, OtlpTransport.GRPC, Encoding.PROTOBUF)
                return await self._handler.handle(admission, kind, data)
        finally:
            self._relay.table.end(connection)

    async def _message(self, context: _Context, admission: Admission) -> bytes:
        """Return the call's one message."""
        limits = self._handler.limits
        async with admission.reading(limits.read_timeout_s):
            message = cast("object", await context.read())
        if isinstance(message, bytes):
            return message
        # gRPC has answered by itself where the message exceeds the limit.
        raise Refused(Reason.SIZE, f"no message, or one of more than {limits.unpacked_bytes_max} bytes")


class _GrpcUnsupported:
    """The handler of unsupported signals' requests."""

    def __init__(self, handler: RequestHandler) -> None:
        self._meter = handler.meter

    async def export(self, _messages: AsyncIterator[bytes], context: _Context) -> bytes:
        self._meter.refused(Reason.SIGNAL)
        await _abort(context, Refused(Reason.SIGNAL, REFUSED))


async def _abort(context: _Context, refused: Refused) -> NoReturn:
    """End the call with the reason's status. Exporters look for the retry delay in either of two places."""
    status = status_of(refused)
    metadata: list[tuple[str, bytes]] = []
    if refused.retry_after_s is not None:
        retry = RetryInfo()
        retry.retry_delay.FromMilliseconds(round(refused.retry_after_s * 1_000))
        status.details.add().Pack(retry)
        metadata.append(("google.rpc.retryinfo-bin", retry.SerializeToString()))
    metadata.append(("grpc-status-details-bin", status.SerializeToString()))
    await context.abort(_CODES[STATUS_CODES[refused.reason].grpc], refused.text, tuple(metadata))
    raise AssertionError("abort raises")
