"""The socket that the monitor is served on."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi")
from shiftgauge.monitor.run.serve import listen


def _has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_small_answers_leave_at_once(host):
    """With Nagle's algorithm the second packet of an answer waits for the caller's acknowledgement, 40 ms."""
    if host == "::1" and not _has_ipv6():
        pytest.skip("no IPv6 here")
    listener = listen(host, 0)
    said = []

    class Asked(asyncio.Protocol):
        def connection_made(self, transport):
            taken = transport.get_extra_info("socket")
            said.append(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    async def once():
        server = await asyncio.get_running_loop().create_server(Asked, sock=listener)
        reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
        await reader.read()
        writer.close()
        server.close()
        await server.wait_closed()

    with ThreadPoolExecutor(1) as thread:  # of its own: a browser's tests leave a loop in this one
        thread.submit(lambda: asyncio.run(once())).result()
    assert said == [1]
