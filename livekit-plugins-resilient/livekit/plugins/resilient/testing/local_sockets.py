"""Connections between a client and a server on one loop, without TCP between them.

What is sent over TCP, even on loopback, arrives when the kernel likes: the window grows with the
time that data took to be read, and a full one is reopened by a timer of 40 ms. How much of a burst
is there at one look therefore depends on the machine's load, and with it the order of events of
equal time. A pair of Unix sockets holds what was written as soon as `send` returns.

The dial itself stays one of TCP, so that ports, refusals and names are real. Beneath the transports
of both ends the pair takes the place of the TCP sockets.
"""

from __future__ import annotations

import os
import socket
import stat
import weakref
from typing import Any

__all__ = ["LocalSockets", "hands_over_at_once"]

_INTERNET = (socket.AF_INET, getattr(socket, "AF_INET6", socket.AF_INET))
_ANY = ("0.0.0.0", "::")
_BUFFER_BYTES = 1 << 20  # as TCP's on loopback, where the system allows so much


class _End(socket.socket):
    """One end of a pair, under the names of the TCP socket whose place it takes."""

    names: tuple[Any, Any] = (None, None)

    def getsockname(self) -> Any:
        return self.names[0]

    def getpeername(self) -> Any:
        return self.names[1]


class LocalSockets:
    """The dials of one loop that are on their way to a server of the same loop."""

    def __init__(self) -> None:
        self._listening: set[tuple[int, str, int]] = set()
        self._dialling: weakref.WeakKeyDictionary[socket.socket, _Dial] = (
            weakref.WeakKeyDictionary()
        )
        self._to_accept: dict[Any, _Dial] = {}
        self._accepted: dict[Any, _Dial] = {}

    def listens(self, listener: socket.socket) -> None:
        """A server of this loop accepts what dials `listener`."""
        if listener.family in _INTERNET and hasattr(socket, "AF_UNIX"):
            self._listening.add(_place(listener))

    def stops(self, listener: socket.socket) -> None:
        """`listener` is about to be closed; who dialled it and was not accepted sees the end."""
        if listener.family not in _INTERNET or listener.fileno() < 0:
            return
        place = _place(listener)
        self._listening.discard(place)
        for name, dial in list(self._to_accept.items()):
            if dial.place == place:
                del self._to_accept[name]
                dial.far.close()

    def accepts(self, peer_name: Any) -> None:
        """A server of this loop has accepted the dial of the socket with this name."""
        if (dial := self._to_accept.pop(peer_name, None)) is not None:
            self._accepted[peer_name] = dial

    def dials(self, dialling: socket.socket, address: Any) -> None:
        """The TCP dial of `dialling` has begun."""
        if dialling.type != socket.SOCK_STREAM or dialling.family not in _INTERNET:
            return
        name = dialling.getsockname()
        hosts = (address[0], *(_ANY if name[0] == address[0] else ()))
        places = ((dialling.family, host, address[1]) for host in hosts)
        place = next((place for place in places if place in self._listening), None)
        if place is None:
            return
        dial = _Dial(place, name, address)
        self._to_accept[name] = dial
        self._dialling[dialling] = dial
        # Whoever gives the dial up closes the socket that he knows of, and no other.
        dial.forgotten = weakref.finalize(dialling, dial.near.close)

    def fails(self, dialling: socket.socket) -> None:
        """The dial of `dialling` came to nothing."""
        dial = self._dialling.pop(dialling, None)
        if dial is None:
            return
        dial.near.close()
        # A server that has accepted it already is about to see its end.
        if self._to_accept.pop(dial.name, None) is not None:
            dial.far.close()

    def end_for(self, connected: socket.socket, peer_name: Any = None) -> socket.socket:
        """The socket that a transport is to use in place of `connected`, which may be the same.

        Args:
            connected: a TCP socket; closed if another takes its place.
            peer_name: of a socket that was accepted, the name of the one that dialled.
        """
        dial = self._dialling.pop(connected, None)
        if dial is not None:
            end, peer_name = dial.near, dial.address
            if dial.forgotten is not None:
                dial.forgotten.detach()
        else:
            dial = self._accepted.pop(peer_name, None)
            if dial is None:
                return connected
            end = dial.far
        end.names = (connected.getsockname(), peer_name)
        connected.close()
        return end

    def close(self) -> None:
        """Close what nobody took."""
        for waiting in (self._dialling, self._to_accept, self._accepted):
            for dial in list(waiting.values()):
                dial.close()


class _Dial:
    def __init__(self, place: tuple[int, str, int], name: Any, address: Any) -> None:
        self.place = place
        self.name = name
        self.address = address
        self.forgotten: weakref.finalize[Any, Any] | None = None
        self.near, self.far = (_End(fileno=end.detach()) for end in socket.socketpair())
        for end in (self.near, self.far):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)

    def close(self) -> None:
        self.near.close()
        self.far.close()


def hands_over_at_once(fd: int) -> bool:
    """Whether what one end of a descriptor's connection writes is there for the other at once.

    So it is with pairs of Unix sockets, and a listener has a dial of the same machine as soon as
    `connect` returns. With TCP it is not, nor with anything that another process writes.
    """
    if not hasattr(socket, "AF_UNIX") or not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return False
    with socket.socket(fileno=os.dup(fd)) as end:
        if end.family not in _INTERNET:
            return True
        return bool(end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _place(listener: socket.socket) -> tuple[int, str, int]:
    host, port = listener.getsockname()[:2]
    return listener.family, host, port
