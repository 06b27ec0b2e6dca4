"""A TCP proxy that disturbs what it forwards: bytes are held back in one or both directions, forwarded slowly, or cut off."""
import contextlib
import socket
import threading
import time

UP, DOWN = "up", "down"         # to the server, and from it
PIECE = 64 << 10
TICK = 0.02                     # seconds between two looks at a direction that forwards nothing


class FaultProxy:
    """Forwards connections to a server. It neither reads nor changes what it forwards, such as TLS."""

    def __init__(self, server):
        host, port = server.rsplit(":", 1)
        self.server, self.held, self.rate, self.left = (host, int(port)), set(), None, {}
        self.forwarded = 0              # bytes, in both directions
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def partition(self, *directions):
        """Holds back everything in these directions, as a network does that drops packets: TCP repeats them until it heals."""
        self.held = set(directions)

    def heal(self):
        self.held, self.rate = set(), None

    def slow(self, rate):
        """Forwards at most so many bytes per second in each direction of a connection."""
        self.rate = rate

    def cut(self, direction, after):
        """Ends the connection that forwards the next bytes in a direction, after so many of them."""
        self.left[direction] = after

    def close(self):
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):      # closed
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.connect, args=(client,), daemon=True).start()

    def connect(self, client):
        while self.held:                        # the handshake of TCP needs both directions
            time.sleep(TICK)
        try:
            server = socket.create_connection(self.server, timeout=10)
        except OSError:
            return client.close()
        for end in (client, server):
            end.settimeout(None)
        for direction, source, target in ((UP, client, server), (DOWN, server, client)):
            threading.Thread(target=self.forward, args=(direction, source, target), daemon=True).start()

    def forward(self, direction, source, target):
        with contextlib.suppress(OSError):
            while piece := source.recv(min(PIECE, max(1, self.rate // 10)) if self.rate else PIECE):
                while direction in self.held:
                    time.sleep(TICK)
                if direction in self.left:
                    target.sendall(piece[:self.left.pop(direction)])
                    break
                target.sendall(piece)
                self.forwarded += len(piece)
                if rate := self.rate:
                    time.sleep(len(piece) / rate)
        while direction in self.held:
            time.sleep(TICK)
        for end in (target, source):            # also ends the other direction
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
