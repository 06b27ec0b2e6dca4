"""The move of a living network from an unmodified Go controller to Overkeep, and the way out to a later Go controller.

Clients of two libraries and a router enroll at the Go controller. Overkeep imports its network, adopts its authority and takes its address.
Everybody goes on with the files they have.
"""
import base64
import contextlib
import copy
import functools
import hmac
import http.server
import json
import os
import pathlib
import re
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.request

import prepare
from controller import ASK, START, Authority, Controller, Failed, expect, tail, until
from network import SOON, Network
from traffic import AGAIN

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "programs"))
from steps import Ziti, go_controller  # noqa: E402

IMPORT = 120                # seconds: one import
KINDS = ("identities", "services", "configs", "config-types", "service-policies", "edge-routers", "edge-router-policies",
         "service-edge-router-policies", "posture-checks", "auth-policies", "external-jwt-signers", "cas")
HOST, INTERCEPT = "NH5p4FpGR", "g7cIWbcGg"
CLIENT = "/edge/client/v1"


def everything(admin, kind):
    return {record["id"]: record for record in admin.get(f"/{kind}?limit=500")}


def fill(old, work):
    """What an operator has made in the old network, beside the clients and their services."""
    made = functools.partial(old.create)
    host = made("/configs", name="web host", configTypeId=HOST, data={"protocol": "tcp", "address": "web", "port": 80})
    other = made("/configs", name="web host for frank", configTypeId=HOST, data={"protocol": "tcp", "address": "web", "port": 81})
    kind = made("/config-types", name="paint.v1", schema={"type": "object"})
    made("/configs", name="paint", configTypeId=kind, data={"colour": "red"})
    web = made("/services", name="web", encryptionRequired=True, configs=[host], roleAttributes=["pages"])
    made("/posture-checks", name="system", typeId="OS", roleAttributes=["strict"], operatingSystems=[{"type": "Linux", "versions": []}])
    policy = made("/auth-policies", name="certificates only", primary={
        "cert": {"allowed": True, "allowExpiredCerts": False}, "extJwt": {"allowed": False, "allowedSigners": []},
        "updb": {"allowed": False, "lockoutDurationMinutes": 0, "maxAttempts": 5, "minPasswordLength": 5, "requireMixedCase": False,
                 "requireNumberChar": False, "requireSpecialChar": False}}, secondary={"requireTotp": False})
    frank = made("/identities", name="frank", type="User", isAdmin=False, externalId="frank@example.com", roleAttributes=["staff"])
    made("/authenticators", method="updb", identityId=frank, username="frank", password="a long passphrase")
    router = next(record["id"] for record in old.get("/identities?limit=500") if record["typeId"] == "Router")
    old.raw("PATCH", f"/identities/{router}", json.dumps({"roleAttributes": ["routers"]}).encode())
    made("/identities", name="pending", type="Device", isAdmin=False, enrollment={"ott": True}, authPolicyId=policy)
    gone = made("/identities", name="gone", type="Device", isAdmin=False)
    for path, body in ((f"/identities/{gone}/disable", {"durationMinutes": 0}),
                       (f"/identities/{frank}/service-configs", [{"serviceId": web, "configId": other}])):
        old.raw("POST", path, json.dumps(body).encode())
    # A router that never enrolls, with a tunneler that is disabled; a terminator that no client made.
    spare = made("/edge-routers", name="spare", isTunnelerEnabled=True)
    old.raw("POST", f"/identities/{spare}/disable", json.dumps({"durationMinutes": 0}).encode())
    made("/terminators", service=web, router=router, binding="transport", address="tcp:192.0.2.1:80")
    with_second_factor(old)
    made("/service-policies", name="web for frank", type="Dial", semantic="AllOf", serviceRoles=[f"@{web}"], identityRoles=[f"@{frank}"],
         postureCheckRoles=["#strict"])
    Authority(old, "partner", work / "authority").issue("carol")
    as_carol(old, work / "authority", "/enroll?method=ca")
    carol_logs_in(old, work / "authority")


def with_second_factor(old):
    """An identity that logs in with a password and one-time codes."""
    erin = old.create("/identities", name="erin", type="User", isAdmin=False)
    old.create("/authenticators", method="updb", identityId=erin, username="erin", password="a long passphrase")
    user = copy.copy(old)
    user.token = None
    user.token = user.ask("POST", f"{CLIENT}/authenticate?method=password", {"username": "erin", "password": "a long passphrase"})["token"]
    user.ask("POST", f"{CLIENT}/current-identity/mfa", {})
    secret = re.search("secret=([A-Z2-7]+)", user.get(f"{CLIENT}/current-identity/mfa")["provisioningUrl"])[1]
    user.ask("POST", f"{CLIENT}/current-identity/mfa/verify", {"code": one_time_code(secret)})


def one_time_code(secret):
    """The code of RFC 6238 for now."""
    key = base64.b32decode(secret + "=" * (-len(secret) % 8))
    digest = hmac.digest(key, struct.pack(">Q", int(time.time()) // 30), "sha1")
    number = struct.unpack(">I", digest[digest[-1] & 15:][:4])[0] & 0x7FFFFFFF
    return f"{number % 10**6:06}"


def as_carol(admin, authority, operation):
    """The answer to a POST with a certificate of the third-party authority for carol."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(authority / "carol.pem", authority / "carol.key")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    asked = urllib.request.Request(f"https://{admin.address}{CLIENT}{operation}", b"{}", {"content-type": "application/json"})
    with opener.open(asked, timeout=ASK) as answer:
        return json.load(answer)["data"]


def carol_logs_in(admin, authority):
    session = as_carol(admin, authority, "/authenticate?method=cert")
    expect(session["identity"]["name"] == "carol", f"the session is of {session['identity']}")


def files(folder):
    """The flags with the authority of a quickstart."""
    pki = folder / "pki"
    return ["--signing-cert", pki / "intermediate-ca/certs/intermediate-ca.cert", "--signing-key", pki / "intermediate-ca/keys/intermediate-ca.key",
            "--root-bundle", pki / "root-ca/certs/root-ca.cert"]


class Move:
    """The steps of a move."""

    def __init__(self, report, name, work):
        self.report, self.name, self.work, self.data = report, name, work, work / "overkeep.redb"
        self.password = work / "password"

    def step(self, what, done):
        """A step that the later ones need."""
        before = len(self.report.failures)
        self.report.judge(f"{self.name} {what}", done)
        if len(self.report.failures) > before:
            raise Failed(f"not reached after {what}")

    def program(self, *line, status=0):
        done = subprocess.run([self.report.binary, *map(str, line)], cwd=self.work, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=IMPORT)
        expect(done.returncode == status, f"overkeep {line[0]} ended with {done.returncode}: {tail(done.stderr or done.stdout)}")
        return done.stdout + done.stderr

    def imported(self, old, *more, status=0):
        return self.program("import", "--from", f"https://{old.address}", "--password-file", self.password, "--yes", "--into", self.data, *more,
                            status=status)

    def refuses_wrong_authorities(self, old):
        """A wrong key, garbage and a huge file are refused, and nothing is left."""
        garbage, huge = self.work / "garbage", self.work / "huge"
        garbage.write_bytes(os.urandom(4096))
        with open(huge, "wb") as file:
            file.truncate(1 << 30)
        good = files(self.work / "go")
        key = self.work / "go/pki/root-ca/keys/root-ca.key"
        for place, wrong, said in ((3, key, "does not belong"), (1, garbage, "--signing-cert"), (3, huge, "1 MiB"), (5, garbage, "--root-bundle"),
                                   (5, good[1], "lead")):
            line = [*good]
            line[place] = wrong
            answer = self.imported(old, *line, status=1)
            expect(said in answer, f"{wrong} in place {place}: {tail(answer)}")
            left = [path.name for path in self.work.iterdir() if path.name.startswith(self.data.name)]
            expect(not left, f"{left} is left after {wrong}")
        huge.unlink()

    def carries(self, old):
        """The import; its report names what must be done by hand."""
        said = self.imported(old, *files(self.work / "go"))
        for word in ("frank (password, user name frank)", "pending (ott)", "signs from now on", "--role-attributes built-in,public",
                     "routers that enroll again (enrollmentJwt of overkeep show edge-router): spare", "second factors to set up again: erin",
                     "terminators to create again (overkeep create terminator): web at tcp:192.0.2.1:80"):
            expect(word in said, f"the report lacks {word!r}: {said}")
        expect("left out" not in said, said)
        self.program("check", self.data)
        expect("exists already" in self.imported(old, status=1), "an existing file is not refused")

    def equals(self, before, new):
        """Every record has its id, and nothing was added but the built-in router."""
        for kind, records in before.items():
            now = everything(new, kind)
            known = {"config-types"} & {kind}
            missing = {record["name"] for id, record in records.items() if now.get(id, {}).get("name") != record["name"]}
            expect(not missing, f"of {kind} {missing} are missing")
            more = {record["name"] for id, record in now.items() if id not in records}
            expect(known or more <= {"built-in"}, f"of {kind} {more} are new")
            for id, record in records.items():
                for member in ("roleAttributes", "identityRoles", "serviceRoles", "postureCheckRoles", "edgeRouterRoles", "semantic", "data", "configs",
                               "isAdmin", "isDefaultAdmin", "externalId", "disabled", "authPolicyId", "isVerified", "fingerprint", "certPem"):
                    expected, found = ((one.get(member) or None) for one in (record, now[id]))
                    if isinstance(expected, list):
                        expected, found = sorted(expected), sorted(found or [])
                    expect(expected == found or known, f"{member} of {record['name']} in {kind} was {expected} and is {found}")
        disabled = {record["name"] for record in before["identities"].values() if record["disabled"]}
        expect(disabled == {"gone", "spare"}, f"{disabled} were disabled")
        frank = next(id for id, record in before["identities"].items() if record["name"] == "frank")
        expect(len(new.get(f"/identities/{frank}/service-configs")) == 1, "the config of frank is lost")


LISTS = {
    # An id twice, none, one that is a number, one that is a path; a policy that names nobody.
    "identities": [{"id": "one", "name": "one", "type": "Default", "isAdmin": True},
                   {"id": "one", "name": "double", "type": "Default", "isAdmin": False}, {"name": "without", "type": "Default", "isAdmin": False},
                   {"id": 7, "name": "number", "type": "Default", "isAdmin": False}, {"id": "../x", "name": "path", "type": "Default", "isAdmin": False},
                   {"id": "two", "name": "strange", "type": "Default", "isAdmin": "perhaps"}, 7, "text"],
    "service-policies": [{"id": "p", "name": "nobody", "type": "Dial", "semantic": "AnyOf", "identityRoles": ["@nobody"], "serviceRoles": ["#all"]}],
    "authenticators": [{"id": "a", "method": "updb", "identityId": "one", "username": "admin"},
                       {"id": "../a", "method": "updb", "identityId": "path of an authenticator", "username": "other"},
                       {"id": "b", "method": "cert", "identityId": "nobody", "fingerprint": "x", "certPem": "garbage"}],
    "enrollments": [{"id": "", "method": "ott", "identityId": "enrollment without an id"}],
}


class Liar(http.server.BaseHTTPRequestHandler):
    """A controller that answers what it was given."""
    lists = LISTS

    def answer(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.split("?")[0].rsplit("/", 1)[-1]
        data = {"token": "x"} if path == "authenticate" else self.lists.get(path, [])
        body = data if isinstance(data, bytes) else json.dumps(
            {"data": data, "meta": {"pagination": {"limit": 500, "offset": 0, "totalCount": len(data)}}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_): pass


def liars(report, _, name, work):
    """Imports from a controller that answers garbage: what is sound is carried, the rest is named, and nothing is half-written."""
    move = Move(report, name, work)
    (work / "names").write_text("subjectAltName=DNS:localhost\n")
    for command in ("req -x509 -newkey rsa:2048 -nodes -subj /CN=authority -days 2 -keyout authority.key -out authority.pem",
                    "req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout liar.key -out liar.csr",
                    "x509 -req -in liar.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 1 -extfile names -out liar.pem"):
        subprocess.run(["openssl", *command.split()], check=True, capture_output=True, cwd=work)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(work / "liar.pem", work / "liar.key")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        move.password.touch(0o600)
        move.password.write_text("a long passphrase")
        line = ["import", "--from", f"https://localhost:{server.server_port}", "--password-file", move.password, "--ca", work / "authority.pem", "--into", move.data]

        def carries():
            said = move.program(*line, status=3)
            for word in ("identities double", "identities without", "identities number", "identities path", "identities strange",
                         "service-policies nobody", "authenticators nobody", "authenticators path of an authenticator", "enrollments enrollment without an id"):
                expect(f"left out: {word}" in said, f"the report lacks {word!r}: {said}")
            expect("1 identities" in said, said)
            move.program("check", move.data)
            move.data.unlink()
            # What an interrupted import left does not hinder the next one.
            (work / f"{move.data.name}.importing").write_text("half")

        def refuses(lists, word):
            Liar.lists = {**LISTS, **lists}
            said = move.program(*line, status=1)
            expect(word in said, said)
            left = [path.name for path in work.iterdir() if path.name.startswith(move.data.name)]
            expect(not left, f"{left} is left")
        report.judge(f"{name} what is sound is carried", carries)
        report.judge(f"{name} a posture check that cannot be carried stops it", lambda: refuses(
            {"posture-checks": [{"id": "c", "name": "check", "typeId": "NONSENSE"}]}, "more would be allowed than before"))
        report.judge(f"{name} too many that cannot be carried stop it", lambda: refuses(
            {"identities": [{"name": "without"}] * 200}, "more than 100 records break rules"))
        report.judge(f"{name} garbage stops it", lambda: refuses({"posture-checks": b"}{" * 4096}, "posture-checks"))
        server.shutdown()


@contextlib.contextmanager
def taken_over(move, old):
    """Overkeep at the address of the old controller, with the imported file and its built-in router."""
    log = move.work / "log"
    line = [move.report.binary, "run", "--data", move.data, "--listen", old.address, "--advertise", old.address]
    env = {**os.environ, "OVERKEEP_PASSWORDS_COST": "10", "OVERKEEP_ROUTER_ENABLED": "true"}

    def start():
        with open(log, "ab") as output:
            return subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env)
    new = Controller(start, old.address, log, old.password)
    try:
        new.begin()
        yield new
    finally:
        new.end()


@contextlib.contextmanager
def old_router(ziti, work):
    """The router of the old network in a process of its own, with the configuration and the certificates that it has."""
    line = [ziti.binary, "router", "run", work / "go/quickstart-router.yaml"]
    with open(work / "router.log", "wb") as log:
        process = subprocess.Popen([*map(str, line)], cwd=work / "go", env={**ziti.environment, "HOME": str(work / "go")}, stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(START)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def moving(report, _, name, work):
    move, log = Move(report, name, work), open(work / "commands", "w")
    ziti = Ziti(prepare.ziti(), work / "home", log)
    with contextlib.ExitStack() as stack:
        with go_controller(ziti, work) as old:
            # Clients that enroll before the policies of the router exist look for routers again only after minutes.
            until(lambda: any(record["isOnline"] for record in old.get("/edge-routers")), START, "the router of the Go controller did not connect")
            move.password.touch(0o600)
            move.password.write_text(old.password)
            running = Network(old, work, report.binary)
            stack.callback(lambda: [peer.kill() for peer in running.peers])
            services = {kind: f"hosted by {kind}" for kind in ("go0", "c0")}
            fill(old, work)
            for service in services.values():
                running.service(service)
            peers = {kind: running.join(kind, f"client-{kind}") for kind in services}
            for kind, service in services.items():
                move.step(f"{kind} hosts at the Go controller", functools.partial(running.host, peers[kind], service))
            move.step("go0 to c0 at the Go controller", lambda: peers["go0"].carry(services["c0"], 1 << 20, leave=True))
            before = {kind: everything(old, kind) for kind in KINDS}
            move.step("wrong authorities are refused", lambda: move.refuses_wrong_authorities(old))
            move.step("the network is imported", lambda: move.carries(old))
            for peer in peers.values():
                peer.kill()
        new = stack.enter_context(taken_over(move, old))
        running.admin = new
        # The policies of the old network name its routers by role.
        new.raw("PATCH", "/edge-routers/built-in", json.dumps({"roleAttributes": ["built-in", "public"]}).encode())
        report.judge(f"{name} everything has its id", lambda: move.equals(before, new))
        report.judge(f"{name} a certificate of a third-party CA logs in", lambda: carol_logs_in(new, work / "authority"))
        peers = {kind: running.rejoin(peer, patience=AGAIN) for kind, peer in peers.items()}
        for kind, service in services.items():
            move.step(f"{kind} hosts with its old certificate", functools.partial(running.host, peers[kind], service))
        report.judge(f"{name} go0 to c0", lambda: peers["go0"].carry(services["c0"], 1 << 20, leave=True))
        report.judge(f"{name} c0 to go0", lambda: peers["c0"].carry(services["go0"], 1 << 20))
        with old_router(ziti, work):
            router = next(id for id, record in before["edge-routers"].items() if record["name"] != "spare")
            report.judge(f"{name} the router goes on with its old certificate", lambda: until(
                lambda: new.get(f"/edge-routers/{router}")["isOnline"], SOON * 3, "the router did not connect"))
        later = stack.enter_context(contextlib.ExitStack())
        (work / "later").mkdir()
        latest = Ziti(prepare.ziti("1.7.2"), work / "later" / "home", log)
        target = later.enter_context(go_controller(latest, work / "later"))
        report.judge(f"{name} the way out", lambda: leave(move, latest, new, target))


def leave(move, ziti, new, target):
    """`overkeep export --openziti` writes what `ziti ops import` of a later release takes."""
    said = move.program("export", "--openziti", "--data", move.data)
    for word in ("Identities to enroll again: ", "frank", "Identities to disable again: ", "CAs to verify again: partner"):
        expect(word in said, f"the report lacks {word!r}")
    file = move.work / "openziti.yaml"
    file.write_text(said)
    ziti("ops", "import", file, "all", "--input-format", "YAML", "--controller-url", target.address, "-u", "admin", "-p", target.password, "-y")
    for kind in ("services", "configs", "service-policies", "posture-checks", "auth-policies", "identities"):
        ours, theirs = ({record["name"] for record in everything(one, kind).values() if not record.get("isSystem")} for one in (new, target))
        expect(ours - {"Default Admin", "built-in"} <= theirs, f"of {kind} {ours - theirs} did not arrive")


TESTS = {"moving": moving, "moving-liars": liars}
