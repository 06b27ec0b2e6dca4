"""Unmodified Go routers 1.1.15 and 1.7.2 in processes of their own: they enroll, connect and relay without manual steps.

Their configuration is the one that docs/routers.md gives, or that `overkeep show edge-router configuration` prints.
"""
import contextlib
import functools
import json
import pathlib
import random
import re
import signal
import socket
import subprocess
import time
import urllib.parse

import prepare
from controller import START, Failed, expect, free_port, tail, until
from network import SOON, network
from peers import KINDS
from traffic import carry_again
from tunnelers import echo_server, through_proxy

STOP = 2            # seconds that a stop of the controller takes at most while routers are connected
ONLINE = 60         # seconds: a router generates a 4096-bit key, connects and receives the sessions
DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "routers.md"
NO_AGENT = {"1.1.15": ["--cli-agent=false"]}
# Seconds until both ends of a circuit are closed that the controller takes back while its session stays. A router of version 1.1 closes them after 30.
CLOSED = {"1.1.15": 45, "1.7.2": SOON}
SIZES = {"nothing": (0, 1), "10 MiB": (10 << 20, 32 << 10)}


def configuration(**values):
    """The configuration in the documentation, with the operator's values."""
    text = re.search(r"```yaml\n(.*?)```", DOCUMENT.read_text(), re.S).group(1)
    for name, value in values.items():
        expect(f"{{{name}}}" in text, f"the configuration of docs/routers.md has no {{{name}}}")
        text = text.replace(f"{{{name}}}", str(value))
    return text


class GoRouter:
    """A router with its own folder. It connects to the address of the controller, or to another one that leads there.

    With `closes_soon`, a router of version 1.1 closes the ends of a circuit that was taken back after a second instead of 30.
    """

    def __init__(self, running, name, version="1.1.15", accepts_links=True, controller=None, closes_soon=False):
        self.running, self.name, self.version, self.process = running, name, version, None
        self.folder = running.work / name
        self.folder.mkdir()
        self.port = free_port()
        self.id = running.admin.create("/edge-routers", name=name, isTunnelerEnabled=False)
        link = free_port() if accepts_links else 0
        # The version 1.1.15 with links gets the configuration in the documentation, the others that which Overkeep prints.
        text = configuration(folder=self.folder, controller=controller or running.admin.address, name="localhost", port=self.port, link=link) \
            if version == "1.1.15" and accepts_links else self.printed("--advertise", f"localhost:{self.port}", "--link-port", str(link))
        if closes_soon:
            text, count = re.subn(r"^( *)options:\n", r"\1options:\n\1  maxCloseWaitMs: 1000\n", text, count=1, flags=re.M)
            expect(count, f"the configuration has no options: {text}")
        (self.folder / "router.yml").write_text(text)

    def printed(self, *flags):
        line = [self.running.binary, "show", "edge-router", "configuration", self.name, *flags, "--data", self.running.work / "overkeep.redb"]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ONLINE)
        expect(done.returncode == 0, f"overkeep show edge-router configuration: {tail(done.stderr)}")
        return done.stdout

    def run(self, *arguments):
        done = subprocess.run([prepare.ziti(self.version), "router", *arguments], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=ONLINE)
        expect(done.returncode == 0, f"ziti router {arguments[0]} failed: {tail(done.stdout + done.stderr)}")

    def shown(self):
        return self.running.admin.get(f"/edge-routers/{self.id}")

    def enroll(self):
        token = self.folder / "token.jwt"
        token.write_text(self.shown()["enrollmentJwt"])
        self.run("enroll", "router.yml", "--jwt", token)

    def begin(self, *arguments):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([prepare.ziti(self.version), "router", "run", "router.yml", *arguments, *NO_AGENT.get(self.version, [])],
                                            cwd=self.folder,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait()

    def wait(self):
        def is_ready():
            expect(self.process.poll() is None, f"the router ended: {self.tail()}")
            shown = self.shown()
            return shown["isOnline"] and shown["syncStatus"] == "SYNC_DONE"
        until(is_ready, ONLINE, f"{self.name} is not online: {self.shown()}")

    def end(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(START)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def tail(self):
        return tail((self.folder / "log").read_text(errors="replace"))


def with_router(function, version="1.1.15"):
    """A test with one Go router and without the built-in router."""
    def test(report, _, name, work):
        with network(report.binary, work, OVERKEEP_ROUTER_ENABLED="false") as running:
            everybody = dict(semantic="AnyOf", edgeRouterRoles=["#all"])
            running.admin.create("/edge-router-policies", name="identities", identityRoles=["#all"], **everybody)
            running.admin.create("/service-edge-router-policies", name="services", serviceRoles=["#all"], **everybody)
            router = GoRouter(running, "far", version)
            try:
                function(report, running, router, name)
            finally:
                router.end()
    return test


def dynamic_cost(running, service):
    return sum(one["dynamicCost"] for one in running.terminators(service))


def carries(report, running, router, name):
    """From enrollment to a transfer of 10 MiB."""
    report.judge(f"{name} enrolls", router.enroll)
    report.judge(f"{name} is online", router.begin)

    def shown():
        is_shown = router.shown()
        expect(is_shown["supportedProtocols"] == {"tls": f"tls://localhost:{router.port}"}, f"{is_shown['supportedProtocols']}")
        expect(is_shown["hostname"] == "localhost" and is_shown["versionInfo"]["version"] == f"v{router.version}", f"{is_shown}")
    report.judge(f"{name} says what it is", shown)
    for service, is_encrypted in (("encrypted", True), ("plain", False)):
        running.service(service, is_encrypted)
    host, dialer = running.join("go0", "host"), running.join("go0", "dialer")
    for service in ("encrypted", "plain"):
        report.judge(f"{name} {service} is hosted", functools.partial(running.host, host, service))
        for what, (size, chunk) in SIZES.items():
            report.judge(f"{name} {service}: {what}", functools.partial(dialer.carry, service, size, chunk))
        report.judge(f"{name} {service}: 20 connections", functools.partial(dialer.carry, service, 8 << 10, connections=20))
        report.judge(f"{name} {service}: circuits end", lambda: until(
            lambda: dynamic_cost(running, service) == 0, SOON, f"circuits of {service} are open: {running.terminators(service)}"))

    def seen():
        until(lambda: running.identity("host")["hasEdgeRouterConnection"], SOON, "the host is not shown as connected")
        actions = [row["action"] for row in history(running, router)]
        expect(actions == ["connect"], f"the history of the router has {actions}")
    report.judge(f"{name} its clients and its connection are seen", seen)

    def unhosted():
        host.kill()
        until(lambda: not running.terminators("plain"), SOON, "the terminator of a host that was killed stays")
    report.judge(f"{name} a host is killed", unhosted)


def libraries(report, running, router, name):
    """Every pair of client libraries. A crash of libziti is excused as in traffic.py."""
    router.enroll()
    router.begin()
    for to in KINDS:
        running.service(to)
    hosts, dialers = ({kind: running.join(kind, f"{what}-{kind}") for kind in KINDS} for what in ("host", "dialer"))
    crashed = set()
    for to in KINDS:
        report.judge(f"{name} {to} hosts", functools.partial(running.host, hosts[to], to))
        for of in KINDS:
            for what, (size, chunk) in SIZES.items():
                report.judge(f"{name} {of} to {to}: {what}", functools.partial(
                    carry_again, running, (hosts, to, to), (dialers, of), crashed, size, chunk=chunk, leave=to == "c0" and size > 0))


def history(running, router):
    """The rows of the history about a router's connections."""
    wanted = urllib.parse.quote(f'id = "{router.id}" and action in ["connect", "disconnect"]')
    return running.see(f"history?filter={wanted}")


def outlives(report, running, router, name):
    """The controller is killed and started while a connection is open."""
    router.enroll()
    router.begin()
    _, policies = running.service("service")
    host, dialer = running.join("go0", "host"), running.join("go0", "dialer")
    running.host(host, "service")
    dialer.ask("open", name="open", service="service")
    dialer.ask("echo", name="open", bytes=100_000)
    running.admin.end(subprocess.Popen.kill)
    report.judge(f"{name} traffic goes on without the controller", functools.partial(dialer.ask, "echo", name="open", bytes=100_000))
    running.admin.begin()
    report.judge(f"{name} the router comes back", router.wait)
    report.judge(f"{name} the connection outlives the restart", functools.partial(dialer.ask, "echo", name="open", bytes=100_000))
    report.judge(f"{name} the host is known again", lambda: until(
        lambda: running.terminators("service"), ONLINE, "the terminator does not come back"))
    report.judge(f"{name} a new connection", lambda: until(lambda: carried(dialer), ONLINE, "nothing is carried after the restart"))
    report.judge(f"{name} the connection still stands", functools.partial(dialer.ask, "echo", name="open", bytes=100_000))

    def ends():
        running.admin.raw("DELETE", f"/service-policies/{policies['Dial']}")
        dialer.ask("ended", name="open", millis=SOON * 1000)
    report.judge(f"{name} the connection ends with its access", ends)


def renews(report, running, router, name):
    """New certificates over the control channel."""
    router.enroll()
    first = router.shown()["fingerprint"]

    def extended():
        router.begin("--extend")
        until(lambda: router.shown()["fingerprint"] != first, ONLINE, f"the certificate stays: {router.tail()}")
        expect(router.shown()["isOnline"], "the router is not online")
    report.judge(f"{name} its certificates are renewed", extended)

    def returns():
        newer = router.shown()["fingerprint"]
        router.end()
        router.begin()
        until(lambda: not router.shown().get("unverifiedFingerprint"), SOON, "the older certificate stays valid")
        expect(router.shown()["fingerprint"] == newer, "the router came back with another certificate")
    report.judge(f"{name} it comes back with the newer certificate", returns)


def tunnels(report, running, router, name):
    """A router that hosts a service for a server outside of the network, and opens a port for a service.

    Version 1.7.2 never ends its side of a connection whose client has ended its own: it takes the connection for closed then.
    """
    port = free_port()
    written = router.folder / "router.yml"
    listener = f"- binding: tunnel\n\\1  options: {{mode: proxy, services: ['inside:{port}']}}"
    written.write_text(re.sub("^( *)(- binding: edge)$", f"\\1{listener}\n\\1\\2", written.read_text(), count=1, flags=re.M))
    running.admin.raw("PATCH", f"/edge-routers/{router.id}", json.dumps({"isTunnelerEnabled": True}).encode())
    kind = next(one["id"] for one in running.admin.get("/config-types?limit=100") if one["name"] == "host.v1")
    config = running.admin.create("/configs", name="outside", configTypeId=kind,
                                  data={"protocol": "tcp", "address": "127.0.0.1", "port": echo_server()})
    _, policies = running.service("outside", configs=[config])
    _, inside = running.service("inside")
    host, dialer = running.join("go0", "host"), running.join("go0", "dialer")
    router.enroll()
    report.judge(f"{name} is online", router.begin)
    running.host(host, "inside")

    def hosted():
        until(lambda: running.terminators("outside"), ONLINE, f"the router does not host: {router.tail()}")
        expect(running.terminators("outside")[0]["binding"] == "tunnel", f"{running.terminators('outside')}")
    report.judge(f"{name} it hosts", hosted)
    for what, (size, chunk) in SIZES.items():
        report.judge(f"{name} to the server outside: {what}", functools.partial(dialer.carry, "outside", size, chunk))
        report.judge(f"{name} from the opened port: {what}", functools.partial(through_proxy, port, size, router.version != "1.7.2"))

    def restarted():
        router.end()
        router.begin()
        until(lambda: running.terminators("outside"), ONLINE, f"the router does not host again: {router.tail()}")
        until(lambda: carried(dialer, "outside"), ONLINE, "nothing is carried after the router was started anew")
    report.judge(f"{name} it is started anew", restarted)

    def opened():
        """A connection to the opened port that carries: the first ones fail until the router has dialed the service again."""
        connection = socket.create_connection(("127.0.0.1", port), timeout=SOON)
        try:
            echoes(connection)
        except (Failed, ConnectionError):
            return connection.close()
        return connection

    def both_carry(connection):
        dialer.ask("echo", name="open", bytes=100_000)
        echoes(connection)
    connection = until(opened, ONLINE, f"the opened port does not carry: {router.tail()}")
    dialer.ask("open", name="open", service="outside")
    both_carry(connection)
    running.admin.end(subprocess.Popen.kill)
    report.judge(f"{name} both circuits go on without the controller", functools.partial(both_carry, connection))
    running.admin.begin()
    report.judge(f"{name} the router comes back", router.wait)
    report.judge(f"{name} both circuits outlive the restart", functools.partial(both_carry, connection))

    def is_hosted_again():
        until(lambda: running.terminators("outside") and running.terminators("inside"), ONLINE, "a terminator does not come back")
        until(lambda: carried(dialer, "outside"), ONLINE, "nothing is carried after the restart")
        both_carry(connection)
    report.judge(f"{name} it hosts again after the restart", is_hosted_again)

    def dial_ends():
        running.admin.raw("DELETE", f"/service-policies/{inside['Dial']}")
        start = time.monotonic()
        until_closed(connection)
        print(f"   the circuit of the opened port had ended after {time.monotonic() - start:.1f} s", flush=True)
        dialer.ask("echo", name="open", bytes=100_000)
    # Version 1.7.2 has no API session whose end would close it (docs/routers.md).
    if router.version != "1.7.2":
        report.judge(f"{name} a circuit that it dialed before the restart ends with its right", dial_ends)

    def ends():
        running.admin.raw("DELETE", f"/service-policies/{policies['Bind']}")
        until(lambda: not running.terminators("outside"), SOON, "the terminator stays")
    report.judge(f"{name} the bind policy", ends)


def echoes(connection, size=100_000):
    """Sends bytes over a socket to an echo and reads them back."""
    sent, received = random.randbytes(size), bytearray()
    connection.sendall(sent)
    while len(received) < size and (piece := connection.recv(64 << 10)):
        received += piece
    expect(received == sent, f"{len(received)} of {size} bytes came back, or others")


def until_closed(connection):
    """Waits until the other side has closed a socket."""
    with contextlib.suppress(ConnectionError):
        try:
            expect(not connection.recv(1), "a byte came")
        except TimeoutError:
            raise Failed(f"the connection did not end within {SOON} s") from None


def access_ends(report, running, router, name):
    """Circuits and terminators end at the router when their access ends."""
    router.enroll()
    router.begin()
    policies = {}
    for service in ("dial", "bind", "identity"):
        _, policies[service] = running.service(service)
    hosts = {service: running.join("go0", f"host-{service}") for service in policies}
    dialers = {service: running.join("go0", f"dialer-{service}") for service in policies}
    for service in policies:
        running.host(hosts[service], service)
        dialers[service].ask("open", name="open", service=service)
        dialers[service].ask("echo", name="open", bytes=100_000)

    def ends(service, change):
        change()
        dialers[service].ask("ended", name="open", millis=SOON * 1000)
    report.judge(f"{name} the dial policy", functools.partial(
        ends, "dial", lambda: running.admin.raw("DELETE", f"/service-policies/{policies['dial']['Dial']}")))
    report.judge(f"{name} the client", functools.partial(
        ends, "identity", lambda: running.admin.raw("DELETE", f"/identities/{running.identity('dialer-identity')['id']}")))

    def bind_ends():
        running.admin.raw("DELETE", f"/service-policies/{policies['bind']['Bind']}")
        until(lambda: not running.terminators("bind"), SOON, "the terminator stays")
    report.judge(f"{name} the bind policy", bind_ends)


def restarts(report, running, router, name):
    """A router that is disabled, killed, and re-enrolled."""
    router.enroll()
    router.begin()
    running.service("service")
    host, dialer = running.join("go0", "host"), running.join("go0", "dialer")
    running.host(host, "service")
    dialer.carry("service", 100_000)

    def disabled():
        running.admin.raw("PATCH", f"/edge-routers/{router.id}", json.dumps({"disabled": True}).encode())
        until(lambda: not router.shown()["isOnline"], SOON, "a disabled router stays online")
        running.admin.raw("PATCH", f"/edge-routers/{router.id}", json.dumps({"disabled": False}).encode())
        router.wait()
    report.judge(f"{name} it is disabled and enabled", disabled)

    def killed():
        router.end(signal.SIGKILL)
        until(lambda: not router.shown()["isOnline"], SOON, "a router that was killed stays online")
        router.begin()
        until(lambda: running.terminators("service"), ONLINE, "the host has not come back")
        until(lambda: carried(dialer), ONLINE, "nothing is carried after the router was started anew")
    report.judge(f"{name} it is killed and started", killed)

    def re_enrolled():
        running.admin.raw("POST", f"/edge-routers/{router.id}/re-enroll", b"{}")
        until(lambda: not router.shown()["isOnline"], SOON, "a router whose enrollment was taken back stays online")
        router.end()
        router.enroll()
        router.begin()
    report.judge(f"{name} it is enrolled anew", re_enrolled)


def only_services(running):
    """Every service may use every router, and no identity may use any yet."""
    for kind in ("edge-router-policies", "service-edge-router-policies"):
        for policy in running.admin.get(f"/{kind}"):
            running.admin.raw("DELETE", f"/{kind}/{policy['id']}")
    running.admin.create("/service-edge-router-policies", name="services", serviceRoles=["#all"], semantic="AnyOf", edgeRouterRoles=["#all"])


def with_routers(function, *versions, is_inside=False, accepts_links=None, prepared=lambda router: None):
    """A test with two Go routers: the client may use the first one, the host the second one. They link to each other; with `is_inside` to
    the built-in router, and to each other only with `accepts_links`. `prepared` may change the configuration of a router before it begins."""
    def test(report, _, name, work):
        with network(report.binary, work, OVERKEEP_ROUTER_ENABLED=str(is_inside).lower()) as running:
            only_services(running)
            routers = [GoRouter(running, where, version, accepts_links=not is_inside if accepts_links is None else accepts_links, closes_soon=True) for where, version in zip(("near", "far"), versions)]
            try:
                for router in routers:
                    prepared(router)
                    report.judge(f"{name} {router.name} {router.version} enrolls", router.enroll)
                    report.judge(f"{name} {router.name} {router.version} is online", router.begin)
                function(report, running, routers, name)
            finally:
                for router in routers:
                    router.end()
    return test


def links(running):
    """The usable links between routers."""
    found = json.loads(running.admin.raw("GET", "/fabric/v1/links"))["data"]
    return [link for link in found if link["state"] == "Connected"]


def crosses(report, running, routers, name, middle=()):
    """Client and host use different routers, with links between them or to the router in the middle."""
    path = [routers[0].id, *middle, routers[1].id]

    def linked():
        return len(links(running)) == len(path) - 1
    report.judge(f"{name} there is a link", lambda: until(linked, ONLINE, "there is no link"))
    running.service("service")
    dialer, host = (joins(running, who, router.id) for who, router in zip(("dialer", "host"), routers))
    report.judge(f"{name} the service is hosted", functools.partial(running.host, host, "service"))
    for what, (size, chunk) in SIZES.items():
        report.judge(f"{name} {what}", functools.partial(dialer.carry, "service", size, chunk))
    report.judge(f"{name} 20 connections", functools.partial(dialer.carry, "service", 8 << 10, connections=20))
    report.judge(f"{name} circuits end", lambda: until(
        lambda: dynamic_cost(running, "service") == 0, SOON, f"circuits are open: {running.terminators('service')}"))

    def link_closed():
        dialer.ask("open", name="open", service="service")
        dialer.ask("echo", name="open", bytes=100_000)
        circuits = running.see("circuits")
        paths = [([router["id"] for router in circuit["routers"]], len(circuit["links"])) for circuit in circuits]
        expect(paths == [(path, len(path) - 1)], f"the circuit is listed as {circuits}")
        sent = [circuits[0][end].get("sentBytes", 0) for end in ("client", "host")]
        expect(all(100_000 <= count < 400_000 for count in sent) if middle else sent == [0, 0], f"bytes are shown as {sent}")
        for link in links(running):
            running.admin.raw("DELETE", f"/fabric/v1/links/{link['id']}")
        until(linked, ONLINE, "the link does not come back")
        dialer.ask("echo", name="open", bytes=100_000)
    report.judge(f"{name} a circuit outlives its link", link_closed)

    def router_killed():
        dialer.ask("open", name="again", service="service")
        routers[1].end(signal.SIGKILL)
        dialer.ask("ended", name="again", millis=SOON * 1000)
        until(lambda: not linked(), SOON, "the link stays")
        routers[1].begin()
        until(lambda: carried(dialer), ONLINE, "nothing is carried after the router was started anew")
    report.judge(f"{name} the router of the host is killed and started", router_killed)

    def stopped():
        dialer.ask("open", name="stopping", service="service")
        began = time.monotonic()
        running.admin.end()
        took = time.monotonic() - began
        expect(running.admin.process.returncode == 0, f"the exit status is {running.admin.process.returncode}")
        expect(took < STOP, f"it took {took:.1f} s")
    report.judge(f"{name} the controller stops in time", stopped)


def with_router_inside(function, version="1.1.15"):
    """A test with the built-in router and one Go router, which links to it."""
    def test(report, _, name, work):
        with network(report.binary, work) as running:
            only_services(running)
            router = GoRouter(running, "far", version)
            try:
                report.judge(f"{name} enrolls", router.enroll)
                report.judge(f"{name} is online", router.begin)
                function(report, running, router, name)
            finally:
                router.end()
    return test


def joins(running, name, router, kind="go0", **more):
    """A new member that may use one router."""
    member = running.join(kind, name, **more)
    running.admin.create("/edge-router-policies", name=name, identityRoles=[f"@{running.identity(name)['id']}"], semantic="AnyOf",
                         edgeRouterRoles=[f"@{router}"])
    return member


def inside(report, running, router, name):
    """Clients and hosts on both sides of a link between a Go router and the built-in router."""
    report.judge(f"{name} there is a link", lambda: until(lambda: links(running), ONLINE, f"there is no link: {router.tail()}"))
    sides = {"built-in": "built-in", "far": router.id}
    services = ("here", "there", "plain here", "plain there")
    policies = {service: running.service(service, not service.startswith("plain"))[1] for service in services}
    for side in sides:
        running.service(f"c0 {side}")
    members = {side: {what: joins(running, f"{side}-{what}", at) for what in ("dialer", "host")} for side, at in sides.items()}
    for service in services:
        host = members["built-in" if service.endswith(" here") or service == "here" else "far"]["host"]
        report.judge(f"{name} {service} is hosted", functools.partial(running.host, host, service))
    for service in services:
        side, other = ("built-in", "far") if service.endswith("there") else ("far", "built-in")
        dialer = members[side]["dialer"]
        for what, (size, chunk) in SIZES.items():
            report.judge(f"{name} {service}: {what}", functools.partial(dialer.carry, service, size, chunk))
        report.judge(f"{name} {service}: 20 connections", functools.partial(dialer.carry, service, 8 << 10, connections=20))
        # Both kinds of client reach the service.
        report.judge(f"{name} {service} beside the host", functools.partial(members[other]["dialer"].carry, service, 100_000))
        report.judge(f"{name} {service}: circuits end", lambda: until(
            lambda: not running.see("circuits"), SOON, f"circuits are open: {running.see('circuits')}"))

    c0 = {side: {what: joins(running, f"{side}-{what}-c0", at, "c0") for what in ("dialer", "host")} for side, at in sides.items()}
    crashed = set()
    for side, other in (("built-in", "far"), ("far", "built-in")):
        hosts, service = {"c0": c0[side]["host"]}, f"c0 {side}"
        running.host(hosts["c0"], service)
        for of, dialers in (("go0", {"go0": members[other]["dialer"], "c0": c0[other]["dialer"]}), ("c0", {"c0": c0[other]["dialer"]})):
            report.judge(f"{name} {of} to libziti at {side}", functools.partial(
                carry_again, running, (hosts, "c0", service), (dialers, of), crashed, 10 << 20, leave=True))
        hosts, dialers = {"c0": c0[other]["host"], "go0": members[side]["host"]}, {"c0": c0[other]["dialer"]}
        report.judge(f"{name} libziti to {side}", functools.partial(
            carry_again, running, (hosts, "go0", "here" if side == "built-in" else "there"), (dialers, "c0"), crashed, 10 << 20))
    until(lambda: not running.see("circuits"), SOON, f"circuits are open: {running.see('circuits')}")

    def ends(service, of, change):
        side = "built-in" if service.endswith("there") else "far"
        dialer, host = members[side]["dialer"], members["far" if side == "built-in" else "built-in"]["host"]
        dialer.ask("open", name="open", service=service)
        dialer.ask("echo", name="open", bytes=100_000)
        circuits = running.see("circuits")
        expect(len(circuits) == 1 and len(circuits[0]["links"]) == 1 and len(circuits[0]["routers"]) == 2, f"listed as {circuits}")
        change()
        dialer.ask("ended", name="open", millis=(CLOSED[router.version] if of == "circuit" else SOON) * 1000)
        until(lambda: not running.see("circuits"), SOON, f"circuits are open: {running.see('circuits')}")
    for service in ("here", "there"):
        report.judge(f"{name} {service}: the end of the right", functools.partial(
            ends, service, "Dial", lambda service=service: running.admin.raw("DELETE", f"/service-policies/{policies[service]['Dial']}")))
        report.judge(f"{name} plain {service}: the circuit is deleted", functools.partial(
            ends, f"plain {service}", "circuit", lambda: running.admin.raw("DELETE", f"/overkeep/v1/circuits/{running.see('circuits')[0]['id']}")))

    def link_closed(service):
        dialer = members["built-in" if service.endswith("there") else "far"]["dialer"]
        dialer.ask("open", name="kept", service=service)
        dialer.ask("echo", name="kept", bytes=100_000)
        for link in links(running):
            running.admin.raw("DELETE", f"/fabric/v1/links/{link['id']}")
        until(lambda: links(running), ONLINE, "the link does not come back")
        dialer.ask("echo", name="kept", bytes=100_000)
        dialer.ask("close", name="kept")
    for service in ("plain here", "plain there"):
        report.judge(f"{name} {service}: a circuit outlives its link", functools.partial(link_closed, service))

    def router_killed():
        dialer = members["built-in"]["dialer"]
        dialer.ask("open", name="again", service="plain there")
        router.end(signal.SIGKILL)
        dialer.ask("ended", name="again", millis=SOON * 1000)
        until(lambda: not links(running), SOON, "the link stays")
        router.begin()
        until(lambda: links(running), ONLINE, "the link does not come back")
        until(lambda: carried(dialer, "plain there"), ONLINE, "nothing is carried after the router was started anew")
    report.judge(f"{name} the router is killed and started", router_killed)


def carried(dialer, service="service"):
    """Whether a connection transfers its data."""
    try:
        dialer.carry(service, 100_000)
        return True
    except Failed:
        return False


TESTS = {
    "router-carries": with_router(carries),
    "router-libraries": with_router(libraries),
    "router-later-libraries": with_router(libraries, "1.7.2"),
    "router-access-ends": with_router(access_ends),
    "router-goes-and-comes": with_router(restarts),
    "router-outlives": with_router(outlives),
    "router-later-outlives": with_router(outlives, "1.7.2"),
    "router-renews": with_router(renews),
    "router-tunnels": with_router(tunnels),
    "router-later-tunnels": with_router(tunnels, "1.7.2"),
    "router-later-renews": with_router(renews, "1.7.2"),
    "router-later-carries": with_router(carries, "1.7.2"),
    "router-later-access-ends": with_router(access_ends, "1.7.2"),
    "router-link": with_routers(crosses, "1.1.15", "1.1.15"),
    "router-inside-link": with_router_inside(inside),
    "router-inside-link-later": with_router_inside(inside, "1.7.2"),
    "router-through": with_routers(functools.partial(crosses, middle=["built-in"]), "1.1.15", "1.7.2", is_inside=True),
    "router-through-back": with_routers(functools.partial(crosses, middle=["built-in"]), "1.7.2", "1.1.15", is_inside=True),
    "router-versions": with_routers(crosses, "1.1.15", "1.7.2"),
    "router-versions-back": with_routers(crosses, "1.7.2", "1.1.15"),
}
