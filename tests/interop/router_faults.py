"""Unmodified Go routers whose connection to the controller is disturbed by a proxy."""
import functools
import json
import time

from controller import expect, until
from fault_proxy import DOWN, UP, FaultProxy
from network import SOON, network
from router_libziti import proxied
from routers import CLOSED, ONLINE, GoRouter, carried, joins, links, with_routers

# Seconds until a router that does not answer is shown offline: 30 without an answer to a heartbeat, one heartbeat every 10.
OFFLINE = 30 + 10 + SOON
FORGET = 10         # seconds: routers.forget-after of a test, the shortest
SLOW = 16 << 10     # bytes per second
LINK_LOST = 30 + 10 + SOON      # seconds until both ends have ended a link without answers to heartbeats
REROUTE = 10        # seconds: routers.reroute-timeout
SETTLED = 3         # seconds in which a second link would appear
METRICS = "metrics:\n  reportInterval: 2s\n  intervalAgeThreshold: 3s\n"


class Disturbed:
    """A controller, a router behind a proxy, a host and a client with an open connection."""

    def __init__(self, running, proxy, router):
        self.running, self.proxy, self.router = running, proxy, router
        running.service("service")
        self.host, self.dialer = running.join("go0", "host"), running.join("go0", "dialer")
        running.host(self.host, "service")
        self.dialer.ask("open", name="open", service="service")
        self.goes_on()

    def goes_on(self):
        self.dialer.ask("echo", name="open", bytes=100_000)

    def is_complete(self):
        """The host is known once, and the open connection is the only circuit."""
        until(lambda: carried(self.dialer), ONLINE, f"nothing is carried: {self.router.tail()}")
        until(lambda: len(self.running.terminators("service")) == 1, SOON, f"terminators: {self.running.terminators('service')}")
        until(lambda: len(self.running.see("circuits")) == 1, SOON, f"circuits: {self.running.see('circuits')}")

    def is_offline(self, within=OFFLINE):
        until(lambda: not self.router.shown()["isOnline"], within, "the router stays online")


def disturbed(function, **settings):
    """A test with one Go router whose control channel goes through a proxy. SDKs connect to the router directly."""
    def test(report, _, name, work):
        with network(report.binary, work, OVERKEEP_ROUTER_ENABLED="false", **settings) as running:
            everybody = dict(semantic="AnyOf", edgeRouterRoles=["#all"])
            running.admin.create("/edge-router-policies", name="identities", identityRoles=["#all"], **everybody)
            running.admin.create("/service-edge-router-policies", name="services", serviceRoles=["#all"], **everybody)
            proxy = FaultProxy(running.admin.address)
            router = GoRouter(running, "far", controller=proxy.address)
            try:
                report.judge(f"{name} enrolls", router.enroll)
                report.judge(f"{name} is online", router.begin)
                function(report, Disturbed(running, proxy, router), name)
            finally:
                router.end()
                proxy.close()
    return test


def partitions(report, scene, name):
    """Circuits live on at the router while the controller does not reach it."""
    def brief():
        scene.proxy.partition(UP, DOWN)
        time.sleep(5)
        scene.goes_on()
        scene.proxy.heal()
        scene.is_complete()
        expect(scene.router.shown()["isOnline"], "the router is offline")
    report.judge(f"{name} a brief one changes nothing", brief)

    def partition(*directions):
        scene.proxy.partition(*directions)
        scene.is_offline()
        scene.goes_on()
        scene.proxy.heal()
        scene.router.wait()
        scene.goes_on()
        scene.is_complete()
    report.judge(f"{name} in both directions", functools.partial(partition, UP, DOWN))
    report.judge(f"{name} from the router", functools.partial(partition, UP))
    report.judge(f"{name} to the router", functools.partial(partition, DOWN))


def slow(report, scene, name):
    """A slow connection to the controller delays what is new, and nothing else."""
    def works():
        scene.proxy.slow(SLOW)
        scene.dialer.carry("service", 1 << 20, connections=20)
        scene.goes_on()
        scene.is_complete()
    report.judge(f"{name} dials over a slow connection", works)

    def reconnects():
        scene.proxy.cut(UP, 0)
        scene.is_offline()
        scene.router.wait()
        scene.goes_on()
        scene.is_complete()
    report.judge(f"{name} reconnects over a slow connection", reconnects)

    def stays():
        until_end = time.monotonic() + 45
        while time.monotonic() < until_end:
            expect(scene.router.shown()["isOnline"], "the router is offline")
            time.sleep(1)
    report.judge(f"{name} stays online", stays)


def cuts(report, scene, name):
    """A connection that ends within a message, of the router or of the controller."""
    def cut(direction, after):
        before = scene.router.shown()
        scene.proxy.cut(direction, after)
        carried(scene.dialer)           # the dial is cut, and fails or is repeated
        until(lambda: direction not in scene.proxy.left, ONLINE, "nothing was cut")
        scene.router.wait()
        scene.goes_on()
        scene.is_complete()
        expect(scene.router.shown()["fingerprint"] == before["fingerprint"], "the router enrolled again")
    for direction in (UP, DOWN):
        for after in (0, 3, 30):
            report.judge(f"{name} {direction} after {after} bytes", functools.partial(cut, direction, after))

    def nothing_lingers():
        scene.dialer.ask("close", name="open")
        until(lambda: not scene.running.see("circuits"), SOON, f"circuits: {scene.running.see('circuits')}")
        scene.host.kill()
        until(lambda: not scene.running.terminators("service"), SOON, "the terminator stays")
    report.judge(f"{name} nothing lingers", nothing_lingers)


def forgotten(report, scene, name):
    """A router that stays away for longer than routers.forget-after."""
    def away():
        scene.proxy.partition(UP, DOWN)
        scene.is_offline()
        until(lambda: not scene.running.terminators("service"), FORGET + SOON, "the terminator of a router that is away stays")
        expect(not scene.running.see("circuits"), f"circuits: {scene.running.see('circuits')}")
    report.judge(f"{name} its circuits and terminators are forgotten", away)

    def back():
        scene.proxy.heal()
        scene.router.wait()
        scene.dialer.ask("ended", name="open", millis=CLOSED[scene.router.version] * 1000)
        until(lambda: scene.running.terminators("service"), ONLINE, "the router does not report its host")
        until(lambda: carried(scene.dialer), ONLINE, "nothing is carried")
        until(lambda: not scene.running.see("circuits"), SOON, f"circuits: {scene.running.see('circuits')}")
        expect(len(scene.running.terminators("service")) == 1, f"terminators: {scene.running.terminators('service')}")
    report.judge(f"{name} it comes back, and the circuit ends", back)


def measured(report, running, routers, name):
    """What the routers report: bytes of routers, links and circuits."""
    for router in routers:
        router.end()
        with open(router.folder / "router.yml", "a") as written:
            written.write(METRICS)
        report.judge(f"{name} {router.name} reports often", router.begin)
    until(lambda: links(running), ONLINE, "there is no link")
    running.service("service")
    dialer, host = (running.join("go0", who) for who in ("dialer", "host"))
    for router, member in zip(routers, (dialer, host)):
        running.admin.create("/edge-router-policies", name=member.name, identityRoles=[f"@{running.identity(member.name)['id']}"],
                             semantic="AnyOf", edgeRouterRoles=[f"@{router.id}"])
    running.host(host, "service")
    dialer.ask("open", name="open", service="service")
    size = 1 << 20
    dialer.ask("echo", name="open", bytes=size)

    def circuit():
        found = running.see("circuits")
        return found and all(found[0][end].get("sentBytes", 0) >= size for end in ("client", "host"))
    report.judge(f"{name} bytes of the circuit", lambda: until(circuit, SOON, f"circuits: {running.see('circuits')}"))

    def link():
        return any(link.get("sourceSentBytes", 0) >= size and link.get("destinationSentBytes", 0) >= size
                   and "sourceLatencyMillis" in link for link in running.see("links"))
    report.judge(f"{name} bytes and latency of the link", lambda: until(link, ONLINE, f"links: {running.see('links')}"))

    def traffic():
        near, far = ([one["traffic"] for one in running.see("online") if one["recordId"] == router.id][0] for router in routers)
        expect(near["clientBytes"] >= size and far["hostBytes"] >= size, f"{near} {far}")
        expect(near["linkSentBytes"] >= size and near["linkReceivedBytes"] >= size and near["circuits"] == far["circuits"] == 1, f"{near} {far}")
    report.judge(f"{name} bytes of the routers", traffic)

    def hour():
        return any(step["remoteRoutersClientBytesPerSecond"] for step in running.see("last-hour")["steps"])

    def charted():
        end = time.monotonic() + SOON
        while not hour() and time.monotonic() < end:
            dialer.ask("echo", name="open", bytes=size)
        expect(hour(), f"{json.dumps(running.see('last-hour'))[-600:]}")
    report.judge(f"{name} bytes of the last hour", charted)


def resilient(router):
    """The link of the router goes through a proxy, and ends when no heartbeat was answered for 30 seconds instead of 60."""
    proxied(router)
    written = router.folder / "router.yml"
    written.write_text(written.read_text().replace("link:\n", "link:\n  heartbeats: {}\n", 1) + METRICS)


def link_lost(report, running, routers, name):
    """The link of two routers is partitioned until both end it. Another path leads through the built-in router."""
    near, far = routers
    # On a busy machine the proxy could make the link of the two slower than the path through the built-in router.
    running.admin.raw("PATCH", "/edge-routers/built-in", b'{"cost": 10000}')
    running.service("service")
    dialer, host = (joins(running, who, router.id) for who, router in zip(("dialer", "host"), routers))
    running.host(host, "service")

    def between():
        return [link for link in running.see("links") if {link[end]["id"] for end in ("source", "destination")} == {near.id, far.id}]

    def path():
        return [router["name"] for circuit in running.see("circuits") for router in circuit["routers"]]

    def partitioned(then):
        """Holds back what the link carries until it is gone, and lets it pass afterwards."""
        for router in routers:
            router.link_proxy.partition(UP, DOWN)
        try:
            echo = dialer.begin("echo", name="open", bytes=100_000)
            until(lambda: not between(), LINK_LOST, f"the link stays: {running.see('links')}")
            then(echo)
        finally:
            for router in routers:
                router.link_proxy.heal()
        until(between, ONLINE, f"the link does not come back: {running.see('links')}")
        time.sleep(SETTLED)
        expect(len(between()) == 1 and len(running.see("links")) == 3, f"links: {running.see('links')}")

    def opened():
        # Without measured latencies the paths cost about the same.
        until(lambda: len(links(running)) == 3 and all("sourceLatencyMillis" in link and "destinationLatencyMillis" in link for link in between()),
              ONLINE, f"links: {running.see('links')}")
        dialer.ask("open", name="open", service="service")
        dialer.ask("echo", name="open", bytes=100_000)
        expect(path() == [near.name, far.name], f"circuits: {running.see('circuits')}")

    def rerouted(echo):
        echo()
        expect(path() == [near.name, "built-in", far.name], f"circuits: {running.see('circuits')}")

    def ends(echo):
        dialer.ask("ended", name="open", millis=REROUTE * 1000 + SOON * 1000)
        until(lambda: not running.see("circuits"), SOON, f"circuits: {running.see('circuits')}")

    def alternative():
        opened()
        partitioned(rerouted)
        dialer.ask("echo", name="open", bytes=100_000)
        dialer.ask("close", name="open")
        until(lambda: not running.see("circuits"), SOON, f"circuits: {running.see('circuits')}")

    def alone():
        running.admin.raw("PATCH", "/edge-routers/built-in", b'{"noTraversal": true}')
        opened()
        partitioned(ends)
        until(lambda: carried(dialer), ONLINE, "nothing is carried")
        until(lambda: not running.see("circuits"), SOON, f"circuits: {running.see('circuits')}")
    report.judge(f"{name} with another path", alternative)
    report.judge(f"{name} with no other path", alone)


TESTS = {
    "router-partitions": disturbed(partitions),
    "router-slow": disturbed(slow),
    "router-cuts": disturbed(cuts),
    "router-forgotten": disturbed(forgotten, OVERKEEP_ROUTERS_FORGET_AFTER=f"{FORGET}s"),
    "router-link-lost": with_routers(link_lost, "1.1.15", "1.7.2", is_inside=True, accepts_links=True, prepared=resilient),
    "router-measured": with_routers(measured, "1.1.15", "1.7.2"),
}
