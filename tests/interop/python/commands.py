"""What the clients in Python have in common: commands on stdin, and what is done with a connection once it is a socket."""
import hashlib
import json
import random
import socket
import sys
import threading
import time

CARRIED = 90        # seconds, the data of one connection
PIECE = 64 << 10


class Refused(Exception):
    """Why a command failed."""


class Connections:
    """Connections that carry bytes to an echo and back. A client adds how it dials and closes one."""

    # Whether the end of the stream is sent as soon as everything was written, or only after everything has come back.
    ends_at_once = True

    def __init__(self):
        self.connections = {}

    def dial(self, service, **_): raise NotImplementedError
    def end(self, connection): connection.close()

    def carry(self, id, service, bytes=0, chunk=1, connections=1, leave=False, **_):
        outcomes = [{} for _ in range(max(connections, 1))]
        threads = [threading.Thread(target=self.carry_one, args=(service, bytes, chunk, leave, id * 1000 + index, outcome))
                   for index, outcome in enumerate(outcomes)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        return outcomes

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
            if not self.ends_at_once:
                connection.shutdown(socket.SHUT_WR)
            while not leave and (piece := connection.recv(PIECE)):
                received.update(piece)
                count += len(piece)
            outcome.update(received=received.hexdigest(), bytes=count)
        except Exception as error:
            outcome["failure"] = f"{type(error).__name__}: {error}"
        if connection:
            self.end(connection)

    def send(self, connection, bytes, chunk, seed, outcome):
        sent, source = hashlib.sha256(), random.Random(seed)
        try:
            while bytes:
                piece = source.randbytes(min(chunk, bytes))
                sent.update(piece)
                connection.sendall(piece)
                bytes -= len(piece)
            if self.ends_at_once:
                connection.shutdown(socket.SHUT_WR)
        except OSError as error:
            outcome["failure"] = f"write: {error}"
        outcome["sent"] = sent.hexdigest()

    def open(self, name, service, **more):
        start = time.monotonic()
        self.connections[name] = self.dial(service, **more)
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
        self.end(self.connections.pop(name))


def serve(actions, commands=sys.stdin):
    """Executes commands, in parallel, until there are no more."""
    lock = threading.Lock()

    def act(command):
        do = command.pop("do")
        try:
            answer = {"id": command["id"], "done": actions[do](**(command if do == "carry" else {k: v for k, v in command.items() if k != "id"}))}
        except Exception as error:
            answer = {"id": command["id"], "failure": f"{type(error).__name__}: {error}"}
        with lock:
            print(json.dumps(answer), flush=True)

    for line in commands:
        threading.Thread(target=act, args=(json.loads(line),), daemon=True).start()
