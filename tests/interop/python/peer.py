"""A client that executes commands: it hosts and dials services and reports the results.

The commands are those of go/peer/main.go, one JSON object a line; what the Python library cannot do (application data, costs, own
instance ids, a dial that is left unanswered, flow control in the library) is refused. It ends when its stdin ends.
"""
import errno
import fcntl
import hashlib
import json
import os
import random
import resource
import socket
import threading
import time

from openziti import zitilib

BACKLOG = 1 << 16   # connections; the library loses a place for each one that waited, and then leaves dials unanswered
NUMBERS = 5         # tries to dial with another descriptor
CARRIED = 90        # seconds, the data of one connection
PIECE = 64 << 10
LINGER = 10         # seconds, until what was written has been sent


NOTHING = os.open(os.devnull, os.O_RDWR)


def end(connection):
    """Closes a socket and keeps its descriptor number, because the library rejects a number (EALREADY) that it still uses."""
    os.dup2(NOTHING, connection.detach())


class Refused(Exception):
    """The error text of the library."""


class Peer:
    def __init__(self):
        self.context, self.listeners, self.callers, self.connections = None, {}, {}, {}

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

    @staticmethod
    def give_back(connection):
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
        end(connection)

    def unhost(self, name, **_):
        os.close(self.listeners.pop(name))

    def callers_of(self, name, **_): return self.callers[name]

    # -- dialing --
    def dial(self, service):
        # The library rejects a number that one of its threads has taken meanwhile (EALREADY). Nothing was sent; another number is used.
        for chance in range(NUMBERS):
            number = zitilib.ziti_socket(socket.SOCK_STREAM)
            # `zitilib.connect` is not used, because it needs a terminator.
            if zitilib._ziti_connect(number, self.context, service.encode(), None) == 0:
                break
            if zitilib.ziti.Ziti_last_error() != errno.EALREADY or chance == NUMBERS - 1:
                zitilib.check_error(-1)
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, number)

    def carry(self, id, service, bytes=0, chunk=1, connections=1, leave=False, **_):
        outcomes = [{} for _ in range(max(connections, 1))]
        threads = [threading.Thread(target=self.carry_one, args=(service, bytes, chunk, leave, id * 1000 + index, outcome))
                   for index, outcome in enumerate(outcomes)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        return outcomes

    # The library also drops unread data once both ends have ended their streams, so that this end ends its stream after it has read
    # everything.
    def carry_one(self, service, bytes, chunk, leave, seed, outcome):
        connection = None
        try:
            start = time.monotonic()
            connection = self.dial(service)
            outcome["dialMicros"] = int((time.monotonic() - start) * 1e6)
            connection.settimeout(CARRIED)
            writer = threading.Thread(target=self.send, args=(connection, bytes, chunk, seed, outcome))
            writer.start()
            received, count = hashlib.sha256(), 0
            while count < bytes and (piece := connection.recv(PIECE)):
                received.update(piece)
                count += len(piece)
            writer.join()
            connection.shutdown(socket.SHUT_WR)
            while not leave and (piece := connection.recv(PIECE)):
                count += len(piece)
            outcome.update(received=received.hexdigest(), bytes=count)
        except Exception as error:
            outcome["failure"] = f"{type(error).__name__}: {error}"
        if connection:
            end(connection)

    @staticmethod
    def send(connection, bytes, chunk, seed, outcome):
        sent, source = hashlib.sha256(), random.Random(seed)
        try:
            while bytes:
                piece = source.randbytes(min(chunk, bytes))
                sent.update(piece)
                connection.sendall(piece)
                bytes -= len(piece)
        except OSError as error:
            outcome["failure"] = f"write: {error}"
        outcome["sent"] = sent.hexdigest()

    def open(self, name, service, **_):
        start = time.monotonic()
        self.connections[name] = self.dial(service)
        return {"dialMicros": int((time.monotonic() - start) * 1e6)}

    def echo(self, name, bytes, **_):
        connection, sent = self.connections[name], random.randbytes(bytes)
        connection.settimeout(CARRIED)
        writer = threading.Thread(target=connection.sendall, args=(sent,))
        writer.start()
        received = bytearray()
        while len(received) < bytes:
            piece = connection.recv(PIECE)
            if not piece:
                raise Refused("the connection ended")
            received += piece
        writer.join()
        if received != sent:
            raise Refused("something else came back")

    def ended(self, name, millis, **_):
        connection, start = self.connections[name], time.monotonic()
        connection.settimeout(millis / 1000)
        reason = "end"
        try:
            while connection.recv(PIECE):
                pass
        except TimeoutError:
            raise Refused("it did not end") from None
        except OSError as error:
            reason = str(error)
        return {"millis": int((time.monotonic() - start) * 1000), "reason": reason}

    def close(self, name, **_):
        end(self.connections.pop(name))


def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    peer, lock = Peer(), threading.Lock()
    actions = {name: getattr(peer, name) for name in ("enroll", "load", "host", "unhost", "carry", "open", "echo", "ended", "close")}
    actions["callers"] = peer.callers_of

    def act(command):
        do = command.pop("do")
        try:
            answer = {"id": command["id"], "done": actions[do](**(command if do == "carry" else {k: v for k, v in command.items() if k != "id"}))}
        except Exception as error:
            answer = {"id": command["id"], "failure": f"{type(error).__name__}: {error}"}
        with lock:
            print(json.dumps(answer), flush=True)

    # The library closes descriptor 0 when the router closes a connection.
    commands = os.fdopen(fcntl.fcntl(0, fcntl.F_DUPFD, 64))
    os.dup2(NOTHING, 0)
    for line in commands:
        threading.Thread(target=act, args=(json.loads(line),), daemon=True).start()
    os._exit(0)                     # the library's own thread would continue


if __name__ == "__main__":
    main()
