"""Two linked Go routers of different versions: every way in which access ends, and the command line of operators.

Each change ends two circuits at once, one from each router to the other, and leaves two others.
"""
import functools
import json
import time

import prepare
from controller import expect, until
from network import SOON
from routers import ONLINE, carried, joins, links, with_routers

USED = "used"       # the role of identities that may dial
ROUTED = "routed"   # the role of services that may use every router


class Pair:
    """The routers, and at each of them a host and a client whose access nobody changes."""

    def __init__(self, running, routers):
        self.running, self.admin = running, running.admin
        self.ids = {router.name: router.id for router in routers}
        self.names = list(self.ids)
        self.admin.raw("PATCH", f"/service-edge-router-policies/{self.policy('service-edge-router-policies', 'services')}",
                       json.dumps({"serviceRoles": [f"#{ROUTED}"]}).encode())
        anybody = dict(semantic="AnyOf", serviceRoles=["#all"])
        self.admin.create("/service-policies", name="hosts", type="Bind", identityRoles=["#all"], **anybody)

    def other(self, side): return next(name for name in self.names if name != side)

    def policy(self, kind, name): return self.admin.get(f"/{kind}?filter=name%3D%22{name}%22")[0]["id"]

    def patch(self, path, **body): self.admin.raw("PATCH", path, json.dumps(body).encode())

    def members(self, what):
        """A new member at each router, which may dial."""
        return {side: joins(self.running, f"{what}-{side}", router, roleAttributes=[USED]) for side, router in self.ids.items()}

    def give(self, members, roles):
        for member in members.values():
            self.patch(f"/identities/{self.running.identity(member.name)['id']}", roleAttributes=roles)

    def services(self, name, roles=(ROUTED,), **policy):
        """A service at each router, hosted there. Returns their ids and the id of the policy that lets members dial them."""
        made = {side: self.admin.create("/services", name=f"{name} {side}", encryptionRequired=True, roleAttributes=[*roles, name])
                for side in self.names}
        dial = self.admin.create("/service-policies", name=f"{name} Dial", type="Dial", semantic="AnyOf", identityRoles=[f"#{USED}"],
                                 serviceRoles=[f"#{name}"], **policy)
        return made, dial

    def begin(self, *services):
        """Hosts and other clients join, after the services were made: libraries read the list of services when they begin."""
        self.hosts, self.kept = self.members("host"), self.members("kept")
        for service in services:
            for side, host in self.hosts.items():
                self.running.host(host, f"{service} {side}")

    def open(self, members, name, service):
        """Every member opens a connection to the host at the other router."""
        for side, member in members.items():
            member.ask("open", name=name, service=f"{service} {self.other(side)}")
            member.ask("echo", name=name, bytes=100_000)

    def circuits(self, members):
        """The open circuits of members."""
        names = {member.name for member in members.values()}
        return {one["id"]: one for one in self.running.see("circuits?limit=500") if one["client"]["identity"]["name"] in names}

    def stands(self, circuits):
        expect(set(circuits) == set(self.circuits(self.kept)), "another circuit ended or was opened")
        for member in self.kept.values():
            member.ask("echo", name="kept", bytes=10_000)

    def ends(self, members, name, service, change):
        """A change ends the circuits of the members, and no others."""
        earlier = self.circuits(members)
        self.open(members, name, service)
        lost, kept = self.circuits(members), self.circuits(self.kept)
        lost = {circuit: shown for circuit, shown in lost.items() if circuit not in earlier}
        expect(len(lost) == 2 and all(len(one["links"]) == 1 for one in lost.values()), f"{len(lost)} circuits, or not over the link")
        expect(len(kept) == 2, f"{len(kept)} other circuits")
        start = time.monotonic()
        change()
        until(lambda: not set(lost) & set(self.circuits(members)), SOON, "a circuit stays")
        print(f"   {name}: the circuits had ended after {time.monotonic() - start:.1f} s", flush=True)
        for member in members.values():
            member.ask("ended", name=name, millis=SOON * 1000)
        self.stands(kept)


def access(report, running, routers, name):
    """Every change that ends access, one after the other."""
    until(lambda: links(running), ONLINE, "there is no link")
    pair = Pair(running, routers)
    admin, patch = running.admin, pair.patch

    def identities(members): return [running.identity(member.name)["id"] for member in members.values()]

    def delete(kind, ids):
        for one in ids:
            admin.raw("DELETE", f"/{kind}/{one}")

    def of(kind, members):
        found = [one for one in admin.get(f"/{kind}?limit=500") if one.get("identityId") in identities(members)]
        return [one["id"] for one in found if one.get("type", "Dial") == "Dial"]

    linux = admin.create("/posture-checks", name="linux", typeId="OS", operatingSystems=[{"type": "Linux", "versions": []}], roleAttributes=["linux"])
    pair.services("common")
    _, dial = pair.services("policy")
    posture, _ = pair.services("posture", postureCheckRoles=["#linux"])
    deleted, _ = pair.services("deleted")
    pair.services("unrouted", roles=())
    routed = admin.create("/service-edge-router-policies", name="unrouted", semantic="AnyOf", serviceRoles=["#unrouted"],
                          edgeRouterRoles=["#all"])
    pair.begin("common", "policy", "posture", "deleted", "unrouted")
    pair.open(pair.kept, "kept", "common")
    for version in ("1.1.15", "1.7.2"):
        command_line(report, running, pair, name, version)
    clients = pair.members("client")

    def judge(what, members, service, change):
        report.judge(f"{name} {what}", functools.partial(pair.ends, members, what, service, change))
    # The first: the library reports its operating system only to the first service that it dials, and only in its first ten seconds.
    judge("a posture check fails", clients, "posture",
          lambda: patch(f"/posture-checks/{linux}", typeId="OS", operatingSystems=[{"type": "Windows", "versions": []}]))
    judge("a service policy is changed", clients, "policy",
          lambda: patch(f"/service-policies/{dial}", identityRoles=["#nobody"]))
    judge("a service edge router policy is changed", clients, "unrouted",
          lambda: patch(f"/service-edge-router-policies/{routed}", serviceRoles=["#nothing"]))
    judge("the service is deleted", clients, "deleted", lambda: delete("services", deleted.values()))
    judge("the session is deleted", clients, "common", lambda: delete("sessions", of("sessions", clients)))
    judge("the role is taken away", clients, "common", lambda: pair.give(clients, []))
    pair.give(clients, [USED])
    judge("the edge router policy is changed", clients, "common", lambda: [
        patch(f"/edge-router-policies/{pair.policy('edge-router-policies', member.name)}", identityRoles=["#nobody"])
        for member in clients.values()])
    for what, change in (
            ("the API session is deleted", lambda members: delete("api-sessions", of("api-sessions", members))),
            ("the identity is disabled", lambda members: [
                admin.raw("POST", f"/identities/{one}/disable", b'{"durationMinutes": 0}') for one in identities(members)]),
            ("the identity is deleted", lambda members: delete("identities", identities(members)))):
        members = pair.members(what.replace(" ", "-"))
        judge(what, members, "common", functools.partial(change, members))
    routers_end(report, running, routers, name, pair)


def command_line(report, running, pair, name, version):
    """`ziti fabric` with links and open circuits. It streams nothing here: the controller has no WebSocket interface."""
    binary = prepare.ziti(version)      # finds the module of the next line as well
    from steps import Ziti
    log = open(running.work / f"fabric-{version}", "w")
    run = Ziti(binary, running.work / f"home-{version}", log)
    run("edge", "login", running.admin.address, "-u", "admin", "-p", running.admin.password, "-y")

    def lists(kind, *rows, filter=()):
        """Every row is in one line of the table."""
        table = run("fabric", "list", kind, *filter).splitlines()
        for row in rows:
            expect(any(all(word in line for word in row) for line in table), f"{row} is not in {table}")
        return table
    near, far = pair.names
    circuits = {one["client"]["identity"]["name"]: one for one in pair.circuits(pair.kept).values()}

    def listed():
        lists("routers", (pair.ids[near], near, "true", "v1.1.15"), (pair.ids[far], far, "true", "v1.7.2"))
        lists("links", (links(running)[0]["id"], near, far, "Connected", "up"))
        lists("services", ("common near", "smartrouting"), ("common far", "smartrouting"))
        lists("terminators", ("common near", f" {near} ", "edge"), ("common far", f" {far} ", "edge"))
        table = lists("circuits", *((one["id"], one["service"]["name"], links(running)[0]["id"]) for one in circuits.values()))
        expect(f"of {len(circuits)}" in table[-1], f"{table}")
        expect(not any(near in line for line in lists("routers", (pair.ids[far],), filter=[f'name = "{far}"'])), "the filter had no effect")
    report.judge(f"{name} ziti {version} fabric list", listed)

    def inspected():
        said = run("fabric", "inspect", "links")
        expect(all(f"{pair.ids[side]}.links" in said for side in pair.names) and links(running)[0]["id"] in said, said)
    report.judge(f"{name} ziti {version} fabric inspect", inspected)

    def deleted():
        one = circuits[pair.kept[near].name]
        run("fabric", "delete", "circuit", one["id"])
        pair.kept[near].ask("ended", name="kept", millis=SOON * 1000)
        expect(one["id"] not in pair.circuits(pair.kept), "the circuit stays")
        pair.kept[far].ask("echo", name="kept", bytes=10_000)
        pair.open({near: pair.kept[near]}, "kept", "common")
        expect("404" in run("fabric", "delete", "circuit", one["id"], refused=True), "a circuit that has ended can be deleted")
        link = links(running)[0]
        run("fabric", "delete", "link", link["id"])
        until(lambda: any((one["id"], one["iteration"]) != (link["id"], link["iteration"]) for one in links(running)), ONLINE,
              "the link does not come back")
        for member in pair.kept.values():
            member.ask("echo", name="kept", bytes=10_000)
    report.judge(f"{name} ziti {version} fabric delete", deleted)
    report.judge(f"{name} ziti {version} fabric stream", lambda: run("fabric", "stream", "events", "--all", refused=True))


def routers_end(report, running, routers, name, pair):
    """A router that is disabled or deleted ends what goes over it; what begins and ends at the other one stands."""
    def local(side, member):
        member.ask("open", name="local", service=f"common {side}")
        member.ask("echo", name="local", bytes=10_000)

    def ends(router, change):
        side, other = router.name, pair.other(router.name)
        member = pair.kept[other]
        until(lambda: carried(member, f"common {side}") and carried(member, f"common {other}"), ONLINE, "nothing is carried")
        member.ask("open", name="lost", service=f"common {side}")
        local(other, member)
        change()
        member.ask("ended", name="lost", millis=SOON * 1000)
        until(lambda: len(pair.circuits({other: member})) == 1, SOON, "a circuit stays")
        member.ask("echo", name="local", bytes=10_000)
        member.ask("close", name="local")
    for member in pair.kept.values():
        member.ask("close", name="kept")
    for router in routers:
        def disabled(router=router):
            ends(router, lambda: pair.patch(f"/edge-routers/{router.id}", disabled=True))
            pair.patch(f"/edge-routers/{router.id}", disabled=False)
            router.wait()
        report.judge(f"{name} the router {router.version} is disabled", disabled)
    report.judge(f"{name} the router {routers[1].version} is deleted", functools.partial(
        ends, routers[1], lambda: running.admin.raw("DELETE", f"/edge-routers/{routers[1].id}")))


TESTS = {
    "router-pair": with_routers(access, "1.1.15", "1.7.2"),
}
