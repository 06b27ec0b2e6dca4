"""`overkeep enroll`, `forward` and `host` with every other client at the other end: over the built-in router, over unmodified Go routers, and
in the networks of unmodified Go controllers with their routers.

The cases `endpoint-*` are those of each change; `endpoint-whole-*` go through every combination of encryption, protocol and size. What
`overkeep forward` and `host` do in pairs with the libraries over the built-in router is in traffic.py as well, where they are one kind of
client among the others.
"""
import contextlib
import functools
import os
import pathlib
import queue
import re
import signal
import socket
import subprocess
import sys
import threading

import prepare
from controller import START, Controller, Failed, expect, free_port, tail, until
from network import SOON, Network, network
from peers import KINDS
from routers import ONLINE, GoRouter, carried
from traffic import carry_again
from tunnelers import echo_server, opened, through_proxy

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "programs"))
from steps import Ziti, go_controller  # noqa: E402

OURS = "overkeep"
VERSIONS = ("1.1.15", "1.7.2")
HOW = {"encrypted": True, "plain": False}
SIZES = {"nothing": (0, 1), "1 MiB in one write": (1 << 20, 1 << 20), "10 MiB": (10 << 20, 32 << 10)}
MANY = 20           # connections at the same time
DATAGRAMS = [1, 100, 1200, 1472, 8000, 16000]       # bytes


# -- libraries -------------------------------------------------------------------------------------------------------
def libraries(report, running, name, hows=HOW, sizes=SIZES):
    """Every library dials what `overkeep host` hosts, and hosts what `overkeep forward` leads to."""
    for how in hows:
        for service in (*KINDS, "datagrams"):
            running.service(f"{service} {how}", HOW[how])
    hosts, dialers = ({kind: running.join(kind, f"{what}-{kind}") for kind in KINDS} for what in ("host", "dialer"))
    crashed = set()
    for how in hows:
        for to in KINDS:
            report.judge(f"{name} {to} hosts, {how}", functools.partial(running.host, hosts[to], f"{to} {how}"))
        report.judge(f"{name} {OURS} hosts for datagrams, {how}", functools.partial(
            running.host, hosts[OURS], f"datagrams {how}", protocol="udp"))
        for of, to in [(of, OURS) for of in KINDS] + [(OURS, to) for to in KINDS if to != OURS]:
            def carry(size, **more):
                carry_again(running, (hosts, to, f"{to} {how}"), (dialers, of), crashed, size, leave=to == "c0" and size > 0, **more)
            for what, (size, chunk) in sizes.items():
                report.judge(f"{name} {of} to {to}, {how}: {what}", functools.partial(carry, size, chunk=chunk))
            if sizes:
                report.judge(f"{name} {of} to {to}, {how}: {MANY} connections", functools.partial(carry, 8 << 10, connections=MANY))
            report.judge(f"{name} {of} to {to}, {how}: datagrams", functools.partial(datagrams, dialers[of], to, how))


def datagrams(dialer, to, how):
    """A message of a library is a datagram, except that libziti joins and divides messages: it gets one at a time."""
    connection = f"datagrams to {to} {how}"
    if dialer.kind == OURS:
        dialer.ask("open", name=connection, service=f"{'datagrams' if to == OURS else to} {how}", protocol="udp")
        dialer.ask("datagrams", name=connection, sizes=DATAGRAMS, atOnce=to != "c0")
    else:
        dialer.ask("open", name=connection, service=f"datagrams {how}")
        for size in DATAGRAMS:
            dialer.ask("echo", name=connection, bytes=size)
    dialer.ask("close", name=connection)


# -- identity files --------------------------------------------------------------------------------------------------
def files(report, running, name):
    """What `overkeep enroll` writes serves every other program, and what they write serves `overkeep`."""
    running.service("for files")
    host = running.join("go0", "host-for-files")
    running.host(host, "for files")
    for kind in KINDS:
        def used(of, by):
            member = running.rejoin(running.join(of, f"{of}-for-{by}"), kind=by)
            member.carry("for files", 100_000)
            member.kill()
        if kind != OURS:
            report.judge(f"{name} {OURS} enrolls, {kind} uses the file", functools.partial(used, OURS, kind))
            report.judge(f"{name} {kind} enrolls, {OURS} uses the file", functools.partial(used, kind, OURS))
    for version in VERSIONS:
        def enrolled_by_program(version=version):
            who = f"ziti-{version}"
            running.admin.create("/identities", name=who, type="Default", isAdmin=False, enrollment={"ott": True})
            token = running.work / f"{who}.token"
            token.write_text(running.identity(who)["enrollment"]["ott"]["jwt"])
            done = subprocess.run([prepare.ziti(version), "edge", "enroll", "--jwt", token, "--out", running.work / f"{who}.json"], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=START, env={**os.environ, "HOME": str(running.work)})
            expect(done.returncode == 0, f"ziti edge enroll: {tail(done.stderr)}")
            running.load(OURS, who).carry("for files", 100_000)
        report.judge(f"{name} ziti {version} enrolls, {OURS} uses the file", enrolled_by_program)


# -- tunnelers -------------------------------------------------------------------------------------------------------
class Tunneler:
    """A running `ziti tunnel`, with an identity that `overkeep enroll` has enrolled."""

    def __init__(self, running, version, name, *line):
        running.join(OURS, name).kill()
        self.log = running.work / f"{name}.tunnel.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([prepare.ziti(version), "tunnel", *line, "-i", running.work / f"{name}.json", "--cli-agent=false"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "HOME": str(running.work)})

    def end(self):
        self.process.kill()
        self.process.wait()


def datagram_echo():
    """A server that sends datagrams back. Returns its port."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))

    def give_back():
        while True:
            with contextlib.suppress(OSError):
                server.sendto(*server.recvfrom(1 << 16))
    threading.Thread(target=give_back, daemon=True).start()
    return server.getsockname()[1]


def exchange(port):
    """Sends datagrams to a port and waits for each, and then all at once."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.connect(("127.0.0.1", port))
        connection.settimeout(SOON)
        sent = [os.urandom(size) for size in DATAGRAMS]
        try:
            for datagram in sent:
                connection.send(datagram)
                expect(connection.recv(1 << 16) == datagram, f"something else than a datagram of {len(datagram)} bytes came back")
            for datagram in sent:
                connection.send(datagram)
            received = [connection.recv(1 << 16) for _ in sent]
        except OSError as error:
            raise Failed(f"datagrams of {DATAGRAMS} bytes: {error}") from None
        expect(received == sent, f"datagrams came back with {[len(one) for one in received]} bytes, or others")


class EndsFirst:
    """A server that sends first and ends its direction, and then reads to the end."""

    def __init__(self):
        self.greeting, self.heard = os.urandom(100_000), queue.Queue()
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]

        def greet(connection):
            with connection, contextlib.suppress(OSError):
                connection.sendall(self.greeting)
                connection.shutdown(socket.SHUT_WR)
                self.heard.put(read_all(connection))

        def serve():
            while True:
                threading.Thread(target=greet, args=(listener.accept()[0],), daemon=True).start()
        threading.Thread(target=serve, daemon=True).start()

    def is_heard(self, port):
        """A client of it at a port sends only after it has read to the end."""
        sent = os.urandom(100_000)
        with socket.create_connection(("127.0.0.1", port), timeout=SOON) as connection:
            received = read_all(connection)
            expect(received == self.greeting, f"{len(received)} of {len(self.greeting)} bytes came, or others")
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            try:
                while (heard := self.heard.get(timeout=SOON)) != sent:      # that of a connection that failed earlier
                    print(f"   the server heard {len(heard)} bytes", flush=True)
            except queue.Empty:
                raise Failed("the server did not hear what was sent") from None


def read_all(connection):
    received = bytearray()
    while piece := connection.recv(64 << 10):
        received += piece
    return received


def many(port, half_closes):
    """Several connections to a port at the same time."""
    failures = []

    def one():
        try:
            through_proxy(port, 8 << 10, half_closes)
        except (Failed, OSError) as error:
            failures.append(str(error))
    threads = [threading.Thread(target=one) for _ in range(MANY)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    expect(not failures, f"{len(failures)} of {MANY} connections failed, such as {failures[:1]}")


def tunnelers(report, running, name, version, hows=HOW, flow_control=True, half_closes=True):
    """`ziti tunnel host` hosts what `overkeep forward` leads to, and `ziti tunnel proxy` leads to what `overkeep host` hosts.

    Without `half_closes` nobody waits until the other end has ended its direction.
    """
    kind = next(one["id"] for one in running.admin.get("/config-types?limit=100") if one["name"] == "host.v1")
    first, mark = EndsFirst(), version if flow_control else f"{version}-plainly"
    servers, ports = {"tcp": echo_server(), "udp": datagram_echo(), "first": first.port}, {}
    for how in hows:
        for protocol, server in servers.items():
            config = running.admin.create("/configs", name=f"tunnel-{mark}-{protocol}-{how}", configTypeId=kind, data={
                "protocol": "udp" if protocol == "udp" else "tcp", "address": "127.0.0.1", "port": server})
            running.service(f"tunnel-{mark}-{protocol}-{how}", HOW[how], configs=[config])
            running.service(f"ours-{mark}-{protocol}-{how}", HOW[how])
            ports[f"ours-{mark}-{protocol}-{how}"] = free_port()
    host, dialer = running.join("go0", f"our-host-{mark}"), running.join("go0", f"our-dialer-{mark}")
    host, dialer = (running.rejoin(member, kind=OURS) for member in (host, dialer))
    for how in hows:
        for protocol, server in servers.items():
            report.judge(f"{name} {OURS} hosts, {protocol} {how}", functools.partial(
                running.host, host, f"ours-{mark}-{protocol}-{how}", protocol="udp" if protocol == "udp" else "tcp", server=server))
    flags = [] if flow_control else ["--default-connections=1", "--control-connections=0"]       # what its flow control depends on
    tunnels = []
    try:
        tunnels.append(Tunneler(running, version, f"tunnel-host-{mark}", "host", *flags))
        tunnels.append(Tunneler(running, version, f"tunnel-proxy-{mark}", "proxy", *flags, *(
            f"{service}:{port}" + (":udp" if "-udp-" in service else "") for service, port in ports.items())))
        for how in hows:
            hosted, ours = f"tunnel-{mark}-tcp-{how}", ports[f"ours-{mark}-tcp-{how}"]
            report.judge(f"{name} ziti tunnel hosts, {how}", lambda: until(
                lambda: all(running.terminators(f"tunnel-{mark}-{protocol}-{how}") for protocol in servers), SOON, "a service got no terminator"))
            until(lambda: opened(ours), SOON, "the tunneler opened no port")
            carry = functools.partial(dialer.carry, hosted, leave=not half_closes)
            for what, (size, chunk) in SIZES.items():
                if half_closes or size:
                    report.judge(f"{name} {OURS} to ziti tunnel, {how}: {what}", functools.partial(carry, size, chunk))
                    report.judge(f"{name} ziti tunnel to {OURS}, {how}: {what}", functools.partial(through_proxy, ours, size, half_closes))
            report.judge(f"{name} {OURS} to ziti tunnel, {how}: {MANY} connections", functools.partial(carry, 8 << 10, connections=MANY))
            report.judge(f"{name} ziti tunnel to {OURS}, {how}: {MANY} connections", functools.partial(many, ours, half_closes))
            if half_closes:
                report.judge(f"{name} {OURS} to ziti tunnel, {how}: the host ends first", lambda: first.is_heard(
                    dialer.ask("port", service=f"tunnel-{mark}-first-{how}")))
                report.judge(f"{name} ziti tunnel to {OURS}, {how}: the host ends first", lambda: first.is_heard(
                    ports[f"ours-{mark}-first-{how}"]))

            def to_tunnel(how=how):
                dialer.ask("open", name=f"udp {how}", service=f"tunnel-{mark}-udp-{how}", protocol="udp")
                dialer.ask("datagrams", name=f"udp {how}", sizes=DATAGRAMS)
            report.judge(f"{name} {OURS} to ziti tunnel, {how}: datagrams", to_tunnel)
            report.judge(f"{name} ziti tunnel to {OURS}, {how}: datagrams", functools.partial(exchange, ports[f"ours-{mark}-udp-{how}"]))
    finally:
        for tunnel in tunnels:
            tunnel.end()


# -- loss of every part ----------------------------------------------------------------------------------------------
def losses(report, running, router, name):
    """The controller, the router, the host and the dialer are stopped and killed, one after the other. The others go on without a new process."""
    running.service("lost")
    host, dialer = running.join(OURS, "losing-host"), running.join(OURS, "losing-dialer")
    report.judge(f"{name} the service is hosted", functools.partial(running.host, host, "lost"))
    report.judge(f"{name} the first {MANY} connections at the same time", functools.partial(dialer.carry, "lost", 8 << 10, connections=MANY))

    def carries_again():
        until(lambda: running.terminators("lost"), ONLINE, "the service is not hosted again")
        until(lambda: carried(dialer, "lost"), ONLINE, f"nothing is carried: {tail(dialer.log.read_text(errors='replace'), 3)}")

    def opens(connection):
        dialer.ask("open", name=connection, service="lost")
        dialer.ask("echo", name=connection, bytes=100_000)

    def controller_lost(how):
        opens(how.__name__)
        running.admin.end(how)
        dialer.ask("echo", name=how.__name__, bytes=100_000)
        running.admin.begin()
        router.wait()
        dialer.ask("echo", name=how.__name__, bytes=100_000)
        carries_again()
        dialer.ask("echo", name=how.__name__, bytes=100_000)
        dialer.ask("close", name=how.__name__)

    def router_lost(how):
        opens(how.name)
        router.end(how)
        dialer.ask("ended", name=how.name, millis=SOON * 1000)
        dialer.refused("open", name="nobody", service="lost")
        router.begin()
        carries_again()

    def host_lost():
        opens("host")
        host.kill()
        dialer.ask("ended", name="host", millis=SOON * 1000)
        until(lambda: not running.terminators("lost"), SOON, "the terminator of a host that was killed stays")
        dialer.refused("open", name="nobody", service="lost")
        running.host(running.rejoin(host), "lost")
        carries_again()

    def dialer_lost():
        opens("dialer")
        dialer.kill()
        running.rejoin(dialer).carry("lost", 1 << 20)
    for how in (subprocess.Popen.terminate, subprocess.Popen.kill):
        report.judge(f"{name} the controller ends ({how.__name__})", functools.partial(controller_lost, how))
    for how in (signal.SIGTERM, signal.SIGKILL):
        report.judge(f"{name} the router ends ({how.name})", functools.partial(router_lost, how))
    report.judge(f"{name} the host is killed", host_lost)
    report.judge(f"{name} the dialer is killed", dialer_lost)


# -- networks --------------------------------------------------------------------------------------------------------
def over_go_router(function, version):
    """A test at Overkeep with a Go router, and without the built-in router."""
    def test(report, _, name, work):
        with network(report.binary, work, OVERKEEP_ROUTER_ENABLED="false") as running:
            everybody = dict(semantic="AnyOf", edgeRouterRoles=["#all"])
            running.admin.create("/edge-router-policies", name="identities", identityRoles=["#all"], **everybody)
            running.admin.create("/service-edge-router-policies", name="services", serviceRoles=["#all"], **everybody)
            router = GoRouter(running, "far", version)
            try:
                router.enroll()
                router.begin()
                function(report, running, router, name)
            finally:
                router.end()
    return test


class OwnRouter:
    """The router of a Go controller, in a process of its own, with the configuration and the certificates that it has."""

    def __init__(self, ziti, version, home, admin, work):
        self.ziti, self.version, self.home, self.admin, self.log, self.process = ziti, version, home, admin, work / "router.log", None
        self.configuration = next(path for path in home.glob("*.yaml") if "router" in path.name)
        # Without its tunneler, which would host every service with a config for that.
        text, count = re.subn(r"^( *)- binding: tunnel\n(?:\1 .*\n)*", "", self.configuration.read_text(), count=1, flags=re.M)
        expect(count, f"the configuration has no tunneler: {text}")
        self.configuration.write_text(text)

    def begin(self):
        until(lambda: not self.is_online(), ONLINE, "the router that has ended is still shown as online")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.ziti.binary, "router", "run", self.configuration], cwd=self.home, stdin=subprocess.DEVNULL,
                                            env={**self.ziti.environment, "HOME": str(self.home)}, stdout=log, stderr=log)
        self.wait()

    def is_online(self):
        return any(router["isOnline"] for router in self.admin.get("/edge-routers"))

    def wait(self):
        until(self.is_online, ONLINE, "the router is not online")

    def end(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(START)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def at_go_controller(function, version):
    """A test in the network of an unmodified controller with its router. The program sets up both in one process; here each then has its own."""
    def test(report, _, name, work):
        with open(work / "commands", "w") as log, contextlib.ExitStack() as stack:
            ziti, home = Ziti(prepare.ziti(version), work / "home", log), work / "go"
            with go_controller(ziti, work) as made:
                until(lambda: any(router["isOnline"] for router in made.get("/edge-routers")), ONLINE, "the router did not connect")

            def start():
                with open(work / "controller.log", "ab") as output:
                    return subprocess.Popen([ziti.binary, "controller", "run", home / "ctrl.yaml"], cwd=home, stdin=subprocess.DEVNULL,
                                            env={**ziti.environment, "HOME": str(home)}, stdout=output, stderr=output)
            admin = Controller(start, made.address, work / "controller.log", made.password)
            stack.callback(lambda: admin.process and admin.end())
            admin.begin()
            router = OwnRouter(ziti, version, home, admin, work)
            stack.callback(router.end)
            report.judge(f"{name} its router is online", router.begin)
            running = Network(admin, work, report.binary)
            stack.callback(lambda: [peer.kill() for peer in running.peers])
            function(report, running, router, name)
    return test


def over_built_in_router(function):
    """A test at Overkeep with its own router."""
    def test(report, _, name, work):
        with network(report.binary, work) as running:
            function(report, running, None, name)
    return test


def briefly(report, running, router, name):
    """One size with two libraries, and every loss, in the network of another controller."""
    running.service("with go1", False)
    running.service("with c0")
    members = {kind: running.join(kind, f"member-{kind}") for kind in (OURS, "go1", "c0")}
    for service, kind in (("with go1", "go1"), ("with c0", "c0")):
        def pair(service=service, kind=kind):
            running.host(members[OURS], service)
            members[kind].carry(service, 10 << 20)
        report.judge(f"{name} {kind} to {OURS}", pair)
    losses(report, running, router, name)


def whole(report, running, router, name):
    """Everything."""
    files(report, running, name)
    libraries(report, running, name)
    for version in VERSIONS:
        # A router 1.7.2 passes on no end of a direction from a client with flow control in its library to one without it.
        swallows = bool(router) and version == router.version == "1.7.2"
        tunnelers(report, running, f"{name} {version}", version, half_closes=not swallows)
        if swallows:
            tunnelers(report, running, f"{name} {version} without flow control", version, flow_control=False)
    if router:
        losses(report, running, router, name)


def with_tunnelers(version):
    def test(report, running, _, name):
        tunnelers(report, running, name, version)
    return test


TESTS = {
    "endpoint-datagrams": over_built_in_router(lambda report, running, _, name: libraries(report, running, name, sizes={})),
    "endpoint-files": over_built_in_router(lambda report, running, _, name: files(report, running, name)),
    **{f"endpoint-tunnelers-{version}": over_built_in_router(with_tunnelers(version)) for version in VERSIONS},
    **{f"endpoint-router-{version}": over_go_router(losses, version) for version in VERSIONS},
    **{f"endpoint-controller-{version}": at_go_controller(briefly, version) for version in VERSIONS},
    "endpoint-whole-built-in": over_built_in_router(whole),
    **{f"endpoint-whole-router-{version}": over_go_router(whole, version) for version in VERSIONS},
    **{f"endpoint-whole-controller-{version}": at_go_controller(whole, version) for version in VERSIONS},
}
