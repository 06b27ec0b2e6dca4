"""A client that executes commands: it hosts and dials services and reports the results.

The commands are those of go/peer/main.go, one JSON object a line; what the Python library cannot do (application data, costs, own
instance ids, a dial that is left unanswered, flow control in the library) is refused. It ends when its stdin ends.
"""
import errno
import fcntl
import os
import resource
import socket
import threading
import time

from openziti import zitilib

from commands import PIECE, Connections, Refused, serve

BACKLOG = 1 << 16   # connections; the library loses a place for each one that waited, and then leaves dials unanswered
NUMBERS = 5         # tries to dial with another descriptor
LINGER = 10         # seconds, until what was written has been sent


NOTHING = os.open(os.devnull, os.O_RDWR)


class Peer(Connections):
    # The library drops unread data once both ends have ended their streams.
    ends_at_once = False

    def __init__(self):
        super().__init__()
        self.context, self.listeners, self.callers = None, {}, {}

    # -- identity --
    def enroll(self, jwt, identity, **_):
        with open(os.open(identity, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(zitilib.enroll(jwt))

    def load(self, identity, **_):
        self.context = zitilib.load(identity)      # returns when the services are known
        if not self.context:
            raise Refused(zitilib.errorstr(zitilib.ziti.Ziti_last_error()))

    # -- hosting --
    def host(self, name, service, behaviour="echo", flowControl=False, cost=0, instance="", **_):
        if behaviour == "unanswered" or flowControl or cost or instance:
            raise Refused("the library cannot do that")
        listener = zitilib.ziti_socket(socket.SOCK_STREAM)
        zitilib.bind(listener, self.context, service)
        zitilib.listen(listener, BACKLOG)
        self.listeners[name], self.callers[name] = listener, []
        threading.Thread(target=self.serve, args=(name, listener, behaviour), daemon=True).start()

    def serve(self, name, listener, behaviour):
        unread = []
        while True:
            try:
                number, caller = zitilib.accept(listener)
            except Exception:       # the library raises no more specific exception; the listener is closed
                return
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, number)
            self.callers[name].append({"name": caller[0], "appData": ""})
            if behaviour == "echo":
                threading.Thread(target=self.give_back, args=(connection,), daemon=True).start()
            else:
                unread.append(connection)       # kept, so that it stays open

    def give_back(self, connection):
        """Sends back what it receives. The library drops unsent data once both ends have ended their streams, so that this end
        ends its stream only if nothing can be left."""
        try:
            count = 0
            while piece := connection.recv(PIECE):
                connection.sendall(piece)
                count += len(piece)
            if count:
                time.sleep(LINGER)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self.end(connection)

    def unhost(self, name, **_):
        os.close(self.listeners.pop(name))

    def callers_of(self, name, **_): return self.callers[name]

    # -- dialing --
    def dial(self, service, **_):
        # The library rejects a number that one of its threads has taken meanwhile (EALREADY). Nothing was sent; another number is used.
        for chance in range(NUMBERS):
            number = zitilib.ziti_socket(socket.SOCK_STREAM)
            # `zitilib.connect` is not used, because it needs a terminator.
            if zitilib._ziti_connect(number, self.context, service.encode(), None) == 0:
                break
            if zitilib.ziti.Ziti_last_error() != errno.EALREADY or chance == NUMBERS - 1:
                zitilib.check_error(-1)
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, number)

    def end(self, connection):
        """Closes a socket and keeps its descriptor number, because the library rejects a number (EALREADY) that it still uses."""
        os.dup2(NOTHING, connection.detach())


def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    peer = Peer()
    actions = {name: getattr(peer, name) for name in ("enroll", "load", "host", "unhost", "carry", "open", "echo", "ended", "close")}
    # The library closes descriptor 0 when the router closes a connection.
    commands = os.fdopen(fcntl.fcntl(0, fcntl.F_DUPFD, 64))
    os.dup2(NOTHING, 0)
    serve({**actions, "callers": peer.callers_of}, commands)
    os._exit(0)                     # the library's own thread would continue


if __name__ == "__main__":
    main()
