"""libziti as client and as host at two Go routers of different versions, whose link goes through a proxy."""
import functools
import re
import signal
import subprocess
import time

from controller import Failed, expect, until
from fault_proxy import DOWN, UP, FaultProxy
from network import SOON
from routers import ONLINE, joins, links, with_routers
from traffic import carry_again

SIZE = 10 << 20     # bytes, each way
RATE = 2 << 20      # bytes per second over a slow link
PARTITION = 3       # seconds


def proxied(router):
    """Puts a proxy before the address where a router accepts links."""
    written = router.folder / "router.yml"
    text = written.read_text()
    address = re.search(r"advertise: tls:localhost:(\d+)", text)
    router.link_proxy = FaultProxy(f"127.0.0.1:{address.group(1)}")
    written.write_text(text.replace(address.group(0), f"advertise: tls:localhost:{router.link_proxy.address.split(':')[1]}"))


def libziti(report, running, routers, name):
    """Transfers of 10 MiB each way, undisturbed and disturbed."""
    until(lambda: links(running), ONLINE, "there is no link")
    proxies = [router.link_proxy for router in routers]
    near, far = routers
    for service in ("c0 near", "c0 far", "go0 far"):
        running.service(service)
    hosts = {side.name: {"c0": joins(running, f"c0-host-{side.name}", side.id, "c0")} for side in routers}
    dialers = {side.name: {"c0": joins(running, f"c0-dialer-{side.name}", side.id, "c0")} for side in routers}
    hosts["far"]["go0"], dialers["near"]["go0"] = joins(running, "go0-host", far.id), joins(running, "go0-dialer", near.id)
    crashed = set()

    def carry(of, at, to):
        side = to.split()[1]
        carry_again(running, (hosts[side], to.split()[0], to), (dialers[at], of), crashed, SIZE, leave=to.startswith("c0"))
    for service in ("c0 near", "c0 far", "go0 far"):
        kind, side = service.split()
        report.judge(f"{name} {service} is hosted", functools.partial(running.host, hosts[side][kind], service))
    for of, at, to in (("c0", "near", "go0 far"), ("go0", "near", "c0 far"), ("c0", "near", "c0 far"), ("c0", "far", "c0 near")):
        report.judge(f"{name} {of} at {at} to {to}", functools.partial(carry, of, at, to))

    def forwarded(): return sum(proxy.forwarded for proxy in proxies)

    def disturbed(disturb):
        """A transfer that is disturbed in its middle. Returns a function that waits for its outcome."""
        for proxy in proxies:
            proxy.slow(RATE)
        before = forwarded()
        outcome = dialers["near"]["c0"].begin("carry", service="c0 far", bytes=SIZE, chunk=32 << 10, connections=1, leave=True)
        until(lambda: forwarded() - before > SIZE // 2, SOON, "nothing crosses the link")
        disturb()
        expect(forwarded() - before < 2 * SIZE, "the transfer was over before")
        return outcome

    def completes(disturb):
        """The whole is repeated if libziti crashed (docs/clients.md)."""
        for chance in (1, 0):
            try:
                got = disturbed(disturb)()[0]
                return expect(not got.get("failure") and got["bytes"] == SIZE and got["sent"] == got["received"], f"it carried {got}")
            except Failed:
                peers = (dialers["near"], hosts["far"])
                if not chance or all(peer["c0"].process.poll() is None for peer in peers):
                    raise
                print("   libziti crashed: it is started anew", flush=True)
                for peer in peers:
                    peer["c0"] = running.rejoin(peer["c0"])
                running.host(hosts["far"]["c0"], "c0 far")
            finally:
                for proxy in proxies:
                    proxy.heal()

    def restart():
        running.admin.end(subprocess.Popen.kill)
        running.admin.begin()

    def partition():
        for proxy in proxies:
            proxy.partition(UP, DOWN)
        time.sleep(PARTITION)
        for proxy in proxies:
            proxy.heal()
    report.judge(f"{name} the link is partitioned in the middle", functools.partial(completes, partition))
    report.judge(f"{name} the controller is killed and started in the middle", functools.partial(completes, restart))

    def killed():
        for router in routers:
            router.wait()
        until(lambda: running.terminators("c0 far"), ONLINE, "the host is not known again")
        outcome = disturbed(lambda: far.end(signal.SIGKILL))(SOON)[0]
        expect(outcome.get("failure") or outcome["bytes"] < SIZE, "10 MiB came back over a router that was killed")
        for proxy in proxies:
            proxy.heal()
    report.judge(f"{name} a router is killed in the middle", killed)


TESTS = {
    "router-libziti": with_routers(libziti, "1.1.15", "1.7.2", prepared=proxied),
}
