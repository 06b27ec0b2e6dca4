"""A controller with its router, and the clients that host and dial through it."""
import contextlib
import functools

from controller import controller, until
from peers import Peer

SOON = 20           # seconds for work that should take one second; the machine may be busy


class Network:
    """A controller with its router, and the identities and services of a test."""

    def __init__(self, admin, work, binary):
        self.admin, self.work, self.binary, self.peers = admin, work, binary, []

    def join(self, kind, name, **more):
        """A new identity, enrolled and loaded by a program of this kind."""
        self.admin.create("/identities", name=name, type="Default", isAdmin=False, enrollment={"ott": True}, **more)
        peer = Peer(kind, name, self.identity(name)["enrollment"]["ott"]["jwt"], self.work, self.binary)
        self.peers.append(peer)
        return peer

    def rejoin(self, peer, kind=None, **more):
        """Restarts the program of a peer with the same identity, or one of another kind; kills it first if it still runs."""
        peer.kill()
        self.peers.remove(peer)
        return self.load(kind or peer.kind, peer.name, **more)

    def load(self, kind, name, **more):
        """A program of this kind with the identity file of this name."""
        peer = Peer(kind, name, None, self.work, self.binary, **more)
        self.peers.append(peer)
        return peer

    def identity(self, name):
        return self.admin.get(f"/identities?filter=name%3D%22{name}%22")[0]

    def service(self, name, encrypted=True, **more):
        """A new service that everybody may dial and host, with its policies by type."""
        service = self.admin.create("/services", name=name, encryptionRequired=encrypted, **more)
        policy = functools.partial(self.admin.create, "/service-policies", semantic="AnyOf", identityRoles=["#all"], serviceRoles=[f"@{service}"])
        return service, {kind: policy(name=f"{name} {kind}", type=kind) for kind in ("Dial", "Bind")}

    def terminators(self, service):
        return [one for one in self.admin.get("/terminators?limit=500") if one["service"]["name"] == service]

    def host(self, peer, service, **more):
        """Makes the peer host a service, and waits until the controller knows the terminator."""
        before = len(self.terminators(service))
        peer.ask("host", name=service, service=service, **more)
        until(lambda: len(self.terminators(service)) > before, SOON, f"{service} got no terminator")

    def see(self, path):
        return self.admin.get(f"/overkeep/v1/{path}")


@contextlib.contextmanager
def network(binary, work, **settings):
    with controller(binary, work, router=True, **settings) as admin:
        running = Network(admin, work, binary)
        try:
            yield running
        finally:
            for peer in running.peers:
                peer.kill()
