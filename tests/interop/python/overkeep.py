"""A client that executes commands with a program: `overkeep enroll`, `overkeep forward` and `overkeep host`.

usage: overkeep.py BINARY

The commands are those of go/peer/main.go, one JSON object a line. Each service is dialed through a port of a `forward` of its own, and
hosted by a `host` of its own, whose server is here or at the port "server". With "protocol": "udp" both lead datagrams. What the program cannot do (costs, own
instance ids, a dial that is left unanswered, flow control) is refused. It ends when its stdin ends, and the programs with it.
"""
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading

from commands import PIECE, Connections, Refused, serve

STARTED = 30        # seconds until a program has logged in, and hosts or listens
DIALED = 60         # seconds until a dial has succeeded or failed
BACKLOG = 1 << 10
DATAGRAM = 1 << 16
ANSWERED = 20       # seconds until a datagram has come back
LOG = "info,overkeep_client=debug"


class Program:
    """A running command. Its log, in JSON, is read and passed on."""

    def __init__(self, *line):
        self.process = subprocess.Popen([*line[:2], "--log-level", LOG, *line[2:]], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        self.changed, self.has_ended, self.last = threading.Condition(), False, ""
        self.address, self.is_hosted = None, False
        self.dialed, self.failed = set(), {}        # connections whose dial nobody has asked for yet
        self.open, self.callers = set(), []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stderr:
            sys.stderr.write(line)
            sys.stderr.flush()
            try:
                said = json.loads(line)
            except ValueError:          # the last line of a command that failed is for people
                said = {}
            with self.changed:
                self.last = line.strip()
                self.note(said, said.get("message"))
                self.changed.notify_all()
        self.process.wait()
        with self.changed:
            self.has_ended = True
            self.changed.notify_all()

    def note(self, said, message):
        if message == "the service can be reached":
            host, port = said["address"].rsplit(":", 1)
            self.address = host, int(port)
        elif message == "the service is hosted":
            self.is_hosted = True
        elif message == "a connection has begun":
            self.dialed.add(said["from"])
            self.open.add(said["from"])
        elif message in ("a connection has ended", "a connection failed"):
            if "dialed_by" in said:
                self.callers.append({"name": said["dialed_by"], "appData": ""})
            elif said["from"] in self.open:
                self.open.remove(said["from"])
            else:
                self.failed[said["from"]] = said.get("error", "it ended")

    def until(self, question, seconds, what):
        """Waits until the log answers the question, and returns the answer."""
        with self.changed:
            self.changed.wait_for(lambda: question() or self.has_ended, seconds)
            answer = question()
            if answer:
                return answer
            if self.has_ended:
                raise Refused(f"the program ended: {self.last}")
            raise Refused(f"{what} within {seconds} s; the last line of the log: {self.last}")

    def outcome(self, port):
        """Waits until the connection from a port has reached its host. Raises why not."""
        here = f"127.0.0.1:{port}"
        self.until(lambda: here in self.failed or here in self.dialed, DIALED, "the dial was not answered")
        with self.changed:
            self.dialed.discard(here)
            if here in self.failed:
                raise Refused(self.failed.pop(here))

    def end(self):
        self.process.terminate()
        self.process.wait()


class Peer(Connections):
    def __init__(self, binary):
        super().__init__()
        self.binary, self.identity, self.lock = binary, None, threading.Lock()
        self.forwards, self.hosts = {}, {}

    # -- identity --
    def enroll(self, jwt, identity, **_):
        done = subprocess.run([self.binary, "enroll", jwt, "--output", identity], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise Refused(done.stderr.strip())

    def load(self, identity, **_):
        self.identity = identity

    # -- hosting --
    def host(self, name, service, behaviour="echo", flowControl=False, cost=0, instance="", protocol="tcp", server=None, **_):
        if behaviour == "unanswered" or flowControl or cost or instance:
            raise Refused("the program cannot do that")
        server = server or (datagram_echo() if protocol == "udp" else echo(reads=behaviour == "echo"))
        program = Program(self.binary, "host", "-i", self.identity, service, f"{protocol}:127.0.0.1:{server}")
        self.hosts[name] = program
        program.until(lambda: program.is_hosted, STARTED, "the service is not hosted")

    def unhost(self, name, **_):
        self.hosts.pop(name).end()

    def callers(self, name, **_): return self.hosts[name].callers

    # -- dialing --
    def forward(self, service, protocol):
        """The program that leads a port to a service, started if it does not run."""
        with self.lock:
            program = self.forwards.get((service, protocol))
            if program is None or program.has_ended:
                program = Program(self.binary, "forward", "-i", self.identity, service, f"{protocol}:127.0.0.1:0")
                self.forwards[service, protocol] = program
        program.until(lambda: program.address, STARTED, "the port was not opened")
        return program

    def port(self, service, protocol="tcp", **_): return self.forward(service, protocol).address[1]

    def dial(self, service, protocol="tcp", **_):
        program = self.forward(service, protocol)
        if protocol == "udp":
            connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            connection.connect(program.address)
            return connection
        connection = socket.create_connection(program.address)
        try:
            program.outcome(connection.getsockname()[1])
        except Refused:
            connection.close()
            raise
        return connection

    def datagrams(self, name, sizes, atOnce=True, **_):
        """Sends datagrams, each after the one before has come back as it was, and then all at once."""
        connection = self.connections[name]
        connection.settimeout(ANSWERED)
        sent = [os.urandom(size) for size in sizes]
        for datagram in sent:
            connection.send(datagram)
            if connection.recv(DATAGRAM) != datagram:
                raise Refused(f"something else than a datagram of {len(datagram)} bytes came back")
        if not atOnce:
            return
        for datagram in sent:
            connection.send(datagram)
        received = [connection.recv(DATAGRAM) for _ in sent]
        if received != sent:
            raise Refused(f"datagrams of {sizes} bytes came back with {[len(one) for one in received]}, or others")


def echo(reads):
    """A server that sends back what it receives, or does not read. Returns its port."""
    listener, unread = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG), []

    def give_back(connection):
        with connection, contextlib.suppress(OSError):
            while piece := connection.recv(PIECE):
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)

    def accept():
        while True:
            connection = listener.accept()[0]
            if reads:
                threading.Thread(target=give_back, args=(connection,), daemon=True).start()
            else:
                unread.append(connection)       # kept, so that it stays open
    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def datagram_echo():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))

    def give_back():
        while True:
            with contextlib.suppress(OSError):
                server.sendto(*server.recvfrom(DATAGRAM))
    threading.Thread(target=give_back, daemon=True).start()
    return server.getsockname()[1]


def main(binary):
    peer = Peer(binary)
    serve({name: getattr(peer, name) for name in (
        "enroll", "load", "host", "unhost", "callers", "port", "carry", "open", "echo", "datagrams", "ended", "close")})
    for program in [*peer.forwards.values(), *peer.hosts.values()]:
        program.process.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
