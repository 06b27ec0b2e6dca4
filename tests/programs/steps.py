"""The steps of an operator with the `ziti` command line, and the expected state on the management interface after each.

A step is a command of the unmodified program. Its exit status and output are checked, and the state of the controller afterwards.
"""
import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
from controller import Authority, Controller, Failed, expect, tail, until  # noqa: E402

COMMAND = 60                # seconds: one command
USER, WORD = "operated", "a long passphrase"
LISTED = ("services", "configs", "config-types", "identities", "edge-routers", "transit-routers", "service-policies", "edge-router-policies",
          "service-edge-router-policies", "posture-checks", "cas", "ext-jwt-signers", "auth-policies", "terminators", "authenticators",
          "enrollments")


class Ziti:
    """The program, with its own home directory."""

    def __init__(self, binary, home, log):
        self.binary, self.home, self.log, self.results = binary, home, log, None
        self.environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PFXLOG_NO_JSON": "true", "NO_COLOR": "1"}
        home.mkdir()

    def __call__(self, *line, refused=False):
        """The standard output of a command, which must succeed; with `refused`, all output of a command that must fail."""
        try:
            done = subprocess.run([self.binary, *map(str, line)], env=self.environment, cwd=self.home, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=COMMAND)
        except subprocess.TimeoutExpired:
            raise Failed(f"`ziti {' '.join(map(str, line[:4]))}` did not end within {COMMAND} s") from None
        said = done.stdout + done.stderr
        if self.results and line[0] == "edge":
            self.results.add(line, done.returncode, said if refused else done.stdout)
        self.log.write(f"$ ziti {' '.join(map(str, line))}\n{said}\n")
        expect("panic:" not in said and "goroutine " not in said, f"the program crashed: {tail(said)}")
        expect((done.returncode != 0) == refused, f"status {done.returncode}: {tail(said)}")
        return said if refused else done.stdout


def low_port():
    """A free port below 32768, because the older program accepts no other."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def go_controller(ziti, work):
    """The controller that the program itself contains, with an empty file and the session of its administrator. It includes a router."""
    address, password, log = f"127.0.0.1:{low_port()}", "a long passphrase", work / "go.log"
    home = work / "go"
    home.mkdir()
    line = ["edge", "quickstart", "--home", home, "--ctrl-address", "127.0.0.1", "--ctrl-port", address.split(":")[1],
            "--router-address", "127.0.0.1", "--router-port", low_port(), "-p", password]

    def start():
        with open(log, "wb") as output:
            return subprocess.Popen([ziti.binary, *map(str, line)], cwd=home, env={**ziti.environment, "HOME": str(home)}, stdout=output,
                                    stderr=output, stdin=subprocess.DEVNULL, start_new_session=True)
    running = Controller(start, address, log, password)
    process = running.process = start()

    def logged_in():
        if not running.answers():
            return False
        try:
            running.log_in()
        except Failed:
            return False
        return True
    try:
        until(logged_in, COMMAND, "the Go controller did not let its administrator in")
        yield running
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def bare(schema):
    """A schema without its descriptions, which differ between controllers."""
    if isinstance(schema, dict):
        return {name: bare(part) for name, part in schema.items() if not (name == "description" and isinstance(part, str))}
    return [bare(part) for part in schema] if isinstance(schema, list) else schema


# What the schemas of built-in config types have only in later controllers, by config type.
TRANSLATIONS = {"forwardAddressTranslations", "addressTranslation", "ipv4AddressTranslation", "ipv6AddressTranslation"}
LATER_PARTS = {"host.v1": TRANSLATIONS, "host.v2": TRANSLATIONS, "intercept.v1": {"allowedSourceAddresses"}}


def without(schema, names):
    """A schema without its parts of these names."""
    if isinstance(schema, dict):
        return {name: without(part, names) for name, part in schema.items() if name not in names}
    return schema


def only(version):
    """Marks a step for one version of the program only."""
    def mark(step):
        step.only = version
        return step
    return mark


class Operator:
    """The steps: the methods that begin with `step_`, in the order of the source."""

    def __init__(self, ziti, admin, work, version, go):
        self.ziti, self.admin, self.work, self.version, self.go = ziti, admin, work, version, go

    # -- queries ----------------------------------------------------------------------------------------------------
    def edge(self, *line, **how): return self.ziti("edge", *line, **how)

    def found(self, kind, name):
        """The record of a kind with a name, or None."""
        query = f"/{kind}?filter=name%3D%22{name.replace(' ', '%20')}%22"
        records = self.admin.get(query)
        expect(len(records) < 2, f"{len(records)} {kind} are called {name}")
        return records[0] if records else None

    def has(self, kind, name, **members):
        record = self.found(kind, name)
        expect(record, f"there is no {name} among the {kind}")
        for member, value in members.items():
            expect(record.get(member) == value, f"{member} of {name} is {record.get(member)!r} and not {value!r}")
        return record

    def lacks(self, kind, name): expect(self.found(kind, name) is None, f"{name} is still among the {kind}")

    def says(self, text, *words):
        for word in words:
            expect(word in text, f"{word!r} is not in {tail(text, 12)}")

    def file(self, name, text):
        path = self.work / name
        path.write_text(text)
        return path

    # -- log in ------------------------------------------------------------------------------------------------------
    def step_login_with_a_wrong_password(self):
        said = self.edge("login", self.admin.address, "-u", "admin", "-p", "not the password", "-y", refused=True)
        self.says(said, "401")

    def step_login(self):
        self.says(self.edge("login", self.admin.address, "-u", "admin", "-p", self.admin.password, "-y"), "Saving identity")

    def step_version(self):
        self.says(self.edge("version"), "Version")

    def step_list_summary(self):
        self.says(self.edge("list", "summary"), "identities", "services")

    # -- settings ----------------------------------------------------------------------------------------------------
    def step_create_config_type(self):
        schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
        self.edge("create", "config-type", "paint", json.dumps(schema))
        self.has("config-types", "paint", schema=schema)

    def step_list_config_types(self):
        self.says(self.edge("list", "config-types"), "paint", "host.v1", "intercept.v1", "ziti-tunneler-client.v1")

    def step_show_config_type(self):
        self.says(self.edge("show", "config-type", "host.v1"), "definitions", "inhabitedSet")

    def step_update_config_type(self):
        self.edge("update", "config-type", "paint", "-d", json.dumps({"type": "object"}))
        self.has("config-types", "paint", schema={"type": "object"})

    def step_create_configs(self):
        intercept = {"protocols": ["tcp"], "addresses": ["db.internal"], "portRanges": [{"low": 5432, "high": 5432}]}
        self.edge("create", "config", "db intercept", "intercept.v1", json.dumps(intercept))
        host = {"protocol": "tcp", "address": "localhost", "port": 5432}
        self.edge("create", "config", "db host", "host.v1", json.dumps(host))
        self.edge("create", "config", "red", "paint", json.dumps({"colour": "red"}))
        self.has("configs", "db intercept", data=intercept)
        self.has("configs", "db host", data=host)

    def step_create_config_that_does_not_fit(self):
        said = self.edge("create", "config", "wrong", "host.v1", json.dumps({"protocol": "tcp"}), refused=True)
        self.says(said, "address")
        self.lacks("configs", "wrong")

    def step_list_configs(self):
        self.says(self.edge("list", "configs"), "db intercept", "db host", "red")

    def step_show_config(self):
        self.says(self.edge("show", "config", "db host"), "5432")

    def step_update_config(self):
        self.edge("update", "config", "db host", "-d", json.dumps({"protocol": "tcp", "address": "localhost", "port": 5433}))
        self.has("configs", "db host", data={"protocol": "tcp", "address": "localhost", "port": 5433})

    # -- services ----------------------------------------------------------------------------------------------------
    def step_create_service(self):
        self.edge("create", "service", "db", "--configs", "db intercept,db host", "-a", "data", "-t", "owner=dba")
        service = self.has("services", "db", roleAttributes=["data"], tags={"owner": "dba"})
        expect(len(service["configs"]) == 2, f"configs are {service['configs']}")

    def step_create_service_twice(self):
        self.says(self.edge("create", "service", "db", refused=True), "name", "must be unique")

    def step_list_services(self):
        self.says(self.edge("list", "services"), "db", "data")
        self.says(self.edge("list", "services", 'name="nothing"'), "results: none")

    def step_list_services_as_json(self):
        listed = json.loads(self.edge("list", "services", "-j", 'name="db"'))
        expect([service["name"] for service in listed["data"]] == ["db"], f"{listed}")

    def step_list_configs_of_service(self):
        self.says(self.edge("list", "service", "configs", "db"), "db intercept", "db host")

    def step_list_services_of_config(self):
        config = self.found("configs", "db host")
        expect([s["name"] for s in self.admin.get(f"/configs/{config['id']}/services")] == ["db"], "the config has another service")
        self.says(self.edge("list", "config", "services", config["id"]), "db")

    def step_update_service(self):
        self.edge("update", "service", "db", "-a", "data,sql")
        self.has("services", "db", roleAttributes=["data", "sql"])

    def step_list_service_role_attributes(self):
        self.says(self.edge("list", "service-role-attributes"), "data", "sql")

    # -- identities --------------------------------------------------------------------------------------------------
    def step_create_identity(self):
        token = self.work / "alice.jwt"
        self.edge("create", "identity", "alice", "-o", token, "-a", "people", "--app-data", "desk=7")
        self.has("identities", "alice", roleAttributes=["people"], appData={"desk": "7"})
        expect(token.read_text().count(".") == 2, "the file holds no token")

    def step_list_enrollments(self):
        self.says(self.edge("list", "enrollments"), "ott")

    def step_enroll(self):
        self.edge("enroll", "-j", self.work / "alice.jwt", "-o", self.work / "alice.json", "-a", "EC")
        expect(self.has("identities", "alice")["authenticators"].get("cert"), "alice has no certificate")

    def step_login_with_an_identity(self):
        self.edge("create", "identity", "root", "-A", "-o", self.work / "root.jwt")
        self.edge("enroll", self.work / "root.jwt", "-o", self.work / "root.json")
        self.edge("login", self.admin.address, "-f", self.work / "root.json", "-y", "-i", "root")
        self.says(self.edge("list", "identities", "-i", "root"), "alice", "root")

    def step_list_identities(self):
        self.says(self.edge("list", "identities"), "alice", "Default Admin")

    def step_update_identity(self):
        self.edge("update", "identity", "alice", "-a", "people,dba", "--app-data", "desk=8", "--external-id", "alice@example.com")
        self.has("identities", "alice", roleAttributes=["dba", "people"], appData={"desk": "8"}, externalId="alice@example.com")

    def step_list_identity_role_attributes(self):
        self.says(self.edge("list", "identity-role-attributes"), "people", "dba")

    def step_update_identity_configs(self):
        config = {"protocols": ["tcp"], "addresses": ["own.internal"], "portRanges": [{"low": 1, "high": 1}]}
        self.edge("create", "config", "own intercept", "intercept.v1", json.dumps(config))
        self.edge("update", "identity-configs", "alice", "db", "own intercept")
        identity = self.found("identities", "alice")
        expect(len(self.admin.get(f"/identities/{identity['id']}/service-configs")) == 1, "alice has no settings of her own")
        self.edge("update", "identity-configs", "alice", "db", "own intercept", "--remove")
        expect(not self.admin.get(f"/identities/{identity['id']}/service-configs"), "the settings are still there")

    def step_list_authenticators(self):
        said = self.edge("list", "authenticators")
        self.says(said, "cert", "updb")

    def step_create_authenticator(self):
        self.edge("create", "identity", "bob")
        self.edge("create", "authenticator", "updb", "bob", USER, WORD)
        expect(self.has("identities", "bob")["authenticators"].get("updb"), "bob has no password")

    def step_update_authenticator(self):
        new = WORD + "!"
        self.edge("update", "authenticator", "updb", "--identity", "bob", "-p", new)
        self.edge("login", self.admin.address, "-u", USER, "-p", new, "-y", "-i", "bob")
        self.edge("login", self.admin.address, "-u", USER, "-p", WORD, "-y", "-i", "bob", refused=True)

    def step_create_enrollment(self):
        self.edge("create", "identity", "carol", "-o", self.work / "carol.jwt")
        self.edge("enroll", self.work / "carol.jwt", "-o", self.work / "carol.json")
        carol = self.found("identities", "carol")["id"]
        waiting = lambda: [enrollment["method"] for enrollment in self.admin.get(f"/identities/{carol}/enrollments")]
        expect(not waiting(), f"carol has the enrollments {waiting()}")
        self.edge("create", "enrollment", "ott", "carol", "-o", self.work / "carol2.jwt")
        expect(waiting() == ["ott"], f"carol has the enrollments {waiting()}")

    def step_enroll_with_a_password(self):
        self.edge("create", "identity", "dave", "--updb", "dave-user", "-o", self.work / "dave.jwt")
        self.edge("enroll", "-j", self.work / "dave.jwt", "-u", "dave-user", "-p", WORD)
        self.edge("login", self.admin.address, "-u", "dave-user", "-p", WORD, "-y", "-i", "dave")

    # -- routers -----------------------------------------------------------------------------------------------------
    def step_create_edge_router(self):
        self.edge("create", "edge-router", "gate", "-a", "public", "-t", "-o", self.work / "gate.jwt", "--cost", "7")
        self.has("edge-routers", "gate", roleAttributes=["public"], isTunnelerEnabled=True, cost=7)

    def step_list_edge_routers(self):
        self.says(self.edge("list", "edge-routers"), "gate", "public")

    def step_update_edge_router(self):
        self.edge("update", "edge-router", "gate", "-a", "public,west", "--cost", "9")
        self.has("edge-routers", "gate", roleAttributes=["public", "west"], cost=9)

    def step_re_enroll_edge_router(self):
        self.edge("re-enroll", "edge-router", "gate", "-o", self.work / "again.jwt")
        expect((self.work / "again.jwt").read_text() != (self.work / "gate.jwt").read_text(), "the token is that of before")

    def step_list_edge_router_role_attributes(self):
        self.says(self.edge("list", "edge-router-role-attributes"), "west")

    def step_create_transit_router(self):
        self.edge("create", "transit-router", "relay", "-o", self.work / "relay.jwt")
        self.says(self.edge("list", "transit-routers"), "relay", "gate")

    def step_create_terminator(self):
        self.edge("create", "terminator", "db", "gate", "tcp:localhost:5432", "--binding", "transport", "-c", "5", "-p", "required")
        terminators = self.admin.get("/terminators")
        expect([(t["cost"], t["precedence"]) for t in terminators] == [(5, "required")], f"{terminators}")

    def step_list_terminators(self):
        self.says(self.edge("list", "terminators"), "db", "gate", "tcp:localhost:5432")

    def step_update_terminator(self):
        self.edge("update", "terminator", self.admin.get("/terminators")[0]["id"], "-c", "6")
        expect(self.admin.get("/terminators")[0]["cost"] == 6, "the cost is that of before")

    # -- policies ----------------------------------------------------------------------------------------------------
    def step_create_policies(self):
        self.edge("create", "service-policy", "db dial", "Dial", "--identity-roles", "#people", "--service-roles", "@db")
        self.edge("create", "service-policy", "db bind", "Bind", "--identity-roles", "@bob", "--service-roles", "#sql",
                  "--semantic", "AllOf")
        self.edge("create", "edge-router-policy", "all routers", "--identity-roles", "#all", "--edge-router-roles", "#public")
        self.edge("create", "service-edge-router-policy", "all services", "--service-roles", "#all", "--edge-router-roles", "#all")
        service = self.found("services", "db")["id"]
        self.has("service-policies", "db dial", type="Dial", semantic="AnyOf", serviceRoles=[f"@{service}"])
        self.has("service-policies", "db bind", type="Bind", semantic="AllOf")
        self.has("edge-router-policies", "all routers", identityRoles=["#all"])
        self.has("service-edge-router-policies", "all services", serviceRoles=["#all"])

    def step_list_policies(self):
        self.says(self.edge("list", "service-policies"), "db dial", "db bind", "@db")
        self.says(self.edge("list", "edge-router-policies"), "all routers", "#public")
        self.says(self.edge("list", "service-edge-router-policies"), "all services")

    def step_list_what_policies_give(self):
        alice, policy = self.found("identities", "alice")["id"], self.found("service-policies", "db dial")["id"]
        self.says(self.edge("list", "identity", "services", alice), "db")
        self.says(self.edge("list", "identity", "edge-routers", alice), "gate")
        self.says(self.edge("list", "service-policy", "identities", policy), "alice")
        self.says(self.edge("list", "service", "identities", "db"), "alice", "bob")

    def step_policy_advisor(self):
        self.says(self.edge("policy-advisor", "identities", "alice", "db"), "alice (1) -> db (1)", "Dial: Y", "Bind: N")
        self.says(self.edge("policy-advisor", "services", "db", "bob"), "Bind: Y")

    def step_update_policies(self):
        self.edge("update", "service-policy", "db bind", "--identity-roles", "#dba")
        self.edge("update", "edge-router-policy", "all routers", "--edge-router-roles", "#all")
        self.edge("update", "service-edge-router-policy", "all services", "--edge-router-roles", "#public")
        self.has("service-policies", "db bind", identityRoles=["#dba"], semantic="AllOf")
        self.has("edge-router-policies", "all routers", edgeRouterRoles=["#all"])
        self.has("service-edge-router-policies", "all services", edgeRouterRoles=["#public"])

    # -- posture -----------------------------------------------------------------------------------------------------
    def step_create_posture_checks(self):
        of = lambda kind, *more: self.edge("create", "posture-check", kind, *more)
        of("mac", "cards", "-m", "00:11:22:33:44:55", "-a", "safe")
        of("os", "systems", "-o", "LINUX:>=5.0.0")
        of("domain", "home", "-d", "example.com")
        of("mfa", "code", "-s", "60")
        of("process", "guard", "LINUX", "/usr/bin/guard")
        of("process-multi", "guards", "AllOf", "LINUX,MACOS", "/usr/bin/guard,/opt/guard")
        kinds = sorted(check["typeId"] for check in self.admin.get("/posture-checks"))
        expect(kinds == ["DOMAIN", "MAC", "MFA", "OS", "PROCESS", "PROCESS_MULTI"], f"{kinds}")

    def step_list_posture_checks(self):
        self.says(self.edge("list", "posture-checks"), "cards", "systems", "home", "code", "guard", "guards")
        self.says(self.edge("list", "posture-check-types"), "PROCESS_MULTI")
        self.says(self.edge("list", "posture-check-role-attributes"), "safe")

    def step_update_posture_checks(self):
        self.edge("update", "posture-check", "mac", "cards", "-m", "00:11:22:33:44:66", "-a", "safe,new")
        self.has("posture-checks", "cards", macAddresses=["001122334466"], roleAttributes=["new", "safe"])

    # -- trust -------------------------------------------------------------------------------------------------------
    def step_create_ca(self):
        self.authority = Authority(self.admin, "made beforehand", self.work / "beforehand")
        other = self.work / "other"
        other.mkdir()
        self.authority.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other", "-days", "2",
                               "-keyout", other / "key.pem", "-out", other / "ca.pem")
        self.edge("create", "ca", "other", other / "ca.pem", "--auth", "--ottca", "--autoca")
        self.has("cas", "other", isVerified=False, isAuthEnabled=True)

    def step_verify_ca(self):
        other = self.work / "other"
        self.edge("verify", "ca", "other", "--cacert", other / "ca.pem", "--cakey", other / "key.pem")
        self.has("cas", "other", isVerified=True)

    def step_list_and_update_cas(self):
        self.says(self.edge("list", "cas"), "other", "made beforehand")
        self.edge("update", "ca", "other", "-n", "another")
        self.has("cas", "another", isVerified=True)

    def step_create_ext_jwt_signer(self):
        self.edge("create", "ext-jwt-signer", "people", "https://people.example.com", "-u", "https://people.example.com/jwks",
                  "-a", "network", "-c", "email", "-y", "https://people.example.com/login")
        self.has("external-jwt-signers", "people", issuer="https://people.example.com", audience="network", claimsProperty="email")

    def step_list_and_update_ext_jwt_signers(self):
        self.says(self.edge("list", "ext-jwt-signers"), "people")
        self.edge("update", "ext-jwt-signer", "people", "-a", "other network")
        self.has("external-jwt-signers", "people", audience="other network")

    def step_create_auth_policy(self):
        self.edge("create", "auth-policy", "strict", "--primary-cert-allowed", "--secondary-req-totp")
        policy = self.has("auth-policies", "strict")
        expect(policy["primary"]["cert"]["allowed"] and policy["secondary"]["requireTotp"], f"{policy}")

    def step_list_and_update_auth_policies(self):
        self.says(self.edge("list", "auth-policies"), "strict", "Default")
        self.edge("update", "auth-policy", "strict", "--primary-updb-allowed")
        expect(self.has("auth-policies", "strict")["primary"]["updb"]["allowed"], "passwords are still not allowed")

    @only("1.1.15")                     # the recording is of this version
    def step_list_everything_as_json(self):
        for kind in LISTED:
            json.loads(self.edge("list", kind, "-j"))

    # -- the file, sessions, the fabric ------------------------------------------------------------------------------
    def step_list_sessions(self):
        self.says(self.edge("list", "api-sessions"), "Default Admin")
        self.edge("list", "sessions")

    def step_trace_identity(self):
        self.edge("trace", "identity", "alice", "1m")

    def step_db_snapshot(self):
        self.edge("db", "snapshot")

    def step_db_check_integrity(self):
        self.edge("db", "start-check-integrity")
        self.says(self.edge("db", "check-integrity-status"), "In Progress", "no data integrity errors found")

    def step_fabric_list(self):
        self.says(self.ziti("fabric", "list", "routers"), "gate", "relay")
        self.says(self.ziti("fabric", "list", "services"), "db", "smartrouting")
        self.says(self.ziti("fabric", "list", "terminators"), "db", "gate", "tcp:localhost:5432")
        self.ziti("fabric", "list", "links")
        self.ziti("fabric", "list", "circuits")

    def step_fabric_list_with_a_filter(self):
        said = self.ziti("fabric", "list", "routers", 'name = "gate"')
        self.says(said, "gate")
        expect("relay" not in said, f"the filter let relay through: {tail(said)}")

    def step_fabric_db_snapshot(self):
        # Less than a minute after the last one.
        self.says(self.ziti("fabric", "db", "snapshot", refused=True), "429")

    # -- the Go controller for comparison----------------------------------------------------------------------------
    @only("1.1.15")                     # later versions have more
    def step_built_in_config_types_are_those_of_the_go_controller(self):
        for kind in self.go.get("/config-types?limit=500"):
            ours = self.found("config-types", kind["name"])
            expect(ours and ours["id"] == kind["id"], f"{kind['name']} is not there")
            same = json.dumps(bare(without(ours["schema"], LATER_PARTS.get(kind["name"], ())))) == json.dumps(bare(kind["schema"]))
            expect(same, f"the schema of {kind['name']} differs, or the order of its keywords")

    def ops(self, verb, controller, *line):
        return self.ziti("ops", verb, *line, "--controller-url", controller.address, "-u", "admin", "-p", controller.password, "-y")

    def names(self, controller):
        kinds = ("services", "configs", "service-policies", "posture-checks", "auth-policies", "external-jwt-signers")
        return {kind: sorted(record["name"] for record in controller.get(f"/{kind}?limit=500")) for kind in kinds}

    def exported(self, controller, name):
        said = self.ops("export", controller, "all")
        # The output about the log-in comes before the document.
        path = self.file(name, said[said.index("\n{\n") + 1:])
        json.loads(path.read_text())
        return path

    @only("1.7.2")                      # the older program lacks both commands
    def step_ops_export_and_import_into_the_go_controller(self):
        self.ops("import", self.go, self.exported(self.admin, "ours.json"), "all")
        ours, theirs = self.names(self.admin), self.names(self.go)
        for kind, names in ours.items():
            expect(set(names) <= set(theirs[kind]), f"of {kind} {set(names) - set(theirs[kind])} did not arrive")

    @only("1.7.2")
    def step_ops_export_and_import_from_the_go_controller(self):
        made = lambda path, **body: self.go.create(path, **body)
        config = made("/configs", name="web host", configTypeId="NH5p4FpGR", data={"protocol": "tcp", "address": "web", "port": 80})
        service = made("/services", name="web", encryptionRequired=True, configs=[config], roleAttributes=["pages"])
        made("/service-policies", name="web bind", type="Bind", semantic="AllOf", serviceRoles=[f"@{service}"], identityRoles=["#all"])
        made("/identities", name="erin", type="Device", isAdmin=False, roleAttributes=["readers"], externalId="erin@example.com")
        self.ops("import", self.admin, self.exported(self.go, "theirs.json"), "all")
        imported = self.has("services", "web", roleAttributes=["pages"])
        self.has("configs", "web host", data={"protocol": "tcp", "address": "web", "port": 80})
        self.has("service-policies", "web bind", serviceRoles=[f"@{imported['id']}"], semantic="AllOf")
        self.has("identities", "erin", roleAttributes=["readers"], externalId="erin@example.com")
        expect(imported["configs"] == [self.found("configs", "web host")["id"]], "the service does not carry its config")

    # -- deletes -----------------------------------------------------------------------------------------------------
    def step_delete_what_is_named(self):
        config = self.found("configs", "db host")
        said = self.edge("delete", "config-type", "paint", refused=True)
        expect("referenced" in said or "configs of that type exist" in said, f"it does not say why: {tail(said)}")
        for kind, name, path in [
                ("terminator", self.admin.get("/terminators")[0]["id"], None), ("service-policy", "db dial", "service-policies"),
                ("service-policy", "db bind", "service-policies"), ("edge-router-policy", "all routers", "edge-router-policies"),
                ("service-edge-router-policy", "all services", "service-edge-router-policies"), ("service", "db", "services"),
                ("config", "db host", "configs"), ("config", "red", "configs"), ("config-type", "paint", "config-types"),
                ("posture-check", "cards", "posture-checks"), ("ca", "another", "cas"), ("external-jwt-signer", "people", "external-jwt-signers"),
                ("auth-policy", "strict", "auth-policies"), ("edge-router", "gate", "edge-routers"), ("transit-router", "relay", None),
                ("identity", "carol", "identities")]:
            self.edge("delete", kind, name)
            if path:
                self.lacks(path, name)
        expect(not self.admin.get("/terminators"), "there is still a terminator")
        expect(config, "there was no config")

    def step_delete_authenticators_and_enrollments(self):
        alice = self.found("identities", "alice")["id"]
        held = [a["id"] for a in self.admin.get(f"/identities/{alice}/authenticators")]
        self.edge("delete", "authenticator", held[0])
        expect(not self.admin.get(f"/identities/{alice}/authenticators"), "alice still has a certificate")
        waiting = self.admin.get("/enrollments")[0]["id"]
        self.edge("delete", "enrollment", waiting)
        expect(waiting not in [e["id"] for e in self.admin.get("/enrollments")], "the enrollment is still there")

    def step_delete_where(self):
        self.edge("delete", "posture-checks", "where", "true limit none")
        expect(not self.admin.get("/posture-checks"), "posture checks are left")

    def step_delete_api_session(self):
        sessions = [s["id"] for s in self.admin.get("/api-sessions?limit=500") if s["identity"]["name"] == "bob"]
        self.edge("delete", "api-session", sessions[0])
        expect(sessions[0] not in [s["id"] for s in self.admin.get("/api-sessions?limit=500")], "the session is still there")

    def step_logout(self):
        self.edge("logout")
        self.edge("list", "services", refused=True)



def steps(version):
    """The names of the steps of a version, in order."""
    of = [(name, step) for name, step in vars(Operator).items() if name.startswith("step_")]
    return [name for name, step in of if getattr(step, "only", version) == version]
