// The requests of the console of OpenZiti, sent from its place: a page of another origin in the browser, so that the rules of the browser
// for requests across origins apply. Read from its sources (openziti/ziti-console: the login and data services, the pages, forms, models and tables),
// because its library is not in the registry of npm.

import { execFileSync } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { expect, origin, password, user } from "../browser.mjs";
import { enroll } from "../client.mjs";

const KINDS = [
  "identities",
  "services",
  "edge-routers",
  "transit-routers",
  "service-policies",
  "edge-router-policies",
  "service-edge-router-policies",
  "configs",
  "config-types",
  "posture-checks",
  "auth-policies",
  "external-jwt-signers",
  "cas",
  "api-sessions",
  "sessions",
  "terminators",
  "authenticators",
  "enrollments",
  "routers",
];
/** The columns by which its tables sort and search: the first is the order in which a list opens. */
const COLUMNS = {
  sessions: ["id", "service"],
  "api-sessions": ["identity"],
  terminators: ["address", "router.name", "service.name"],
  "external-jwt-signers": ["name", "issuer", "audience"],
  "auth-policies": ["name", "id"],
  cas: ["name", "id"],
  "config-types": ["name", "id"],
  "posture-checks": ["name", "id"],
  configs: ["name", "id"],
  "transit-routers": ["name", "id"],
};
const ATTRIBUTES = [
  "identity-role-attributes",
  "service-role-attributes",
  "edge-router-role-attributes",
  "posture-check-role-attributes",
];
const DISCOVERED = "/edge/management/v1/version";
const FIRST_PAGE = "limit=50&offset=0&sort=name  asc";
// As its tables write them: blanks and all.
const FILTERS = [
  ["identities", '(name contains "ali")'],
  ["identities", ' name icontains "ALI"'],
  ["identities", "isAdmin = true"],
  ["identities", 'anyOf(roleAttributes) = "sales" or anyOf(roleAttributes) = "staff"'],
  ["services", '(name contains "")'],
  ["edge-routers", "online = true"],
  ["edge-routers", 'anyOf(roleAttributes) = "branch"'],
  ["auth-policies", "primary.cert.allowed = true and primary.updb.allowed = true"],
  ["config-types", 'name contains "intercept"'],
  [
    "identities",
    "createdAt >= datetime(2020-01-01T00:00:00.000Z) and createdAt <= datetime(2120-01-01T00:00:00.000Z)",
  ],
];
const SHARED = { appData: {}, tags: {} };

/** Sends requests from the page of the console. The result has `token`, which the console sends once it has logged in. */
function sender(page) {
  const state = { token: null };
  state.send = async (method, path, body, status = 200, type = "application/json") => {
    const answer = await page.evaluate(
      async ([method, url, token, body, type]) => {
        const headers = {
          accept: "application/json",
          "content-type": type,
          ...(token ? { "zt-session": token } : {}),
        };
        const got = await fetch(url, { method, headers, body });
        return { status: got.status, text: await got.text() };
      },
      [
        method,
        origin + path,
        state.token,
        typeof body === "object" ? JSON.stringify(body) : body,
        type,
      ],
    );
    expect(
      status === 200 ? answer.status < 300 : answer.status === status,
      `the console's ${method} ${path} answered ${answer.status}: ${answer.text.slice(0, 300)}`,
    );
    return JSON.parse(answer.text || "{}");
  };
  return state;
}

/** Finds the interface, tries a certificate, and logs in with a password. Returns the path of the interface. */
async function logIn(state) {
  const { data: version } = await state.send("GET", DISCOVERED);
  const base = version.apiVersions["edge-management"].v1.path;
  await state.send("POST", `${base}/authenticate?method=cert`, {}, 401);
  const { data: session } = await state.send("POST", `${base}/authenticate?method=password`, {
    username: user,
    password,
    rejectUnauthorized: false,
  });
  state.token = session.token;
  expect(
    Date.parse(session.expiresAt) > Date.now() && session.expirationSeconds > 0,
    "the console knows when its session ends",
  );
  return base;
}

async function dashboardAndLists(send, base) {
  const { data: summary } = await send(
    "GET",
    `${base}/summary?filter=(name contains "")&limit=1&offset=0&sort=name asc`,
  );
  expect(
    ["identities", "services", "routers.edge"].every((name) => summary[name] > 0),
    `the dashboard shows ${JSON.stringify(summary)}`,
  );
  for (const kind of KINDS) {
    const sort = ["identities", "services"].includes(kind) ? "name asc" : "createdAt desc";
    const { meta } = await send("GET", `${base}/${kind}?limit=100&offset=0&sort=${sort}`);
    expect(meta.pagination.limit === 100, `the console pages through ${kind}`);
    await send("GET", `${base}/${kind}`);
  }
  for (const kind of ATTRIBUTES)
    for (const search of ["", "?filter=&limit=-1&offset=0&sort=name asc"])
      await send("GET", `${base}/${kind}${search}`);
  for (const kind of ["identities", "edge-routers", "services"])
    await send("GET", `${base}/${kind}?filter=&limit=-1&offset=0&sort=name asc`);
  await send("GET", `${base}/network-jwts`);
  for (const [kind, columns] of Object.entries(COLUMNS)) {
    for (const column of columns) {
      await send("GET", `${base}/${kind}?limit=50&offset=0&sort=${column} asc`);
      await send(
        "GET",
        `${base}/${kind}?filter=${column} contains "a"&limit=50&offset=0&sort=${column} desc`,
      );
    }
  }
  for (const kind of [
    'sessions?filter=type = "Dial"',
    "external-jwt-signers?filter=enabled = true",
    "auth-policies?filter=primary.extJwt.allowed = false",
    "cas?filter=isVerified = false",
  ])
    await send("GET", `${base}/${kind}&limit=50&offset=0`);
  for (const [kind, filter] of FILTERS) {
    const { data } = await send("GET", `${base}/${kind}?filter=${filter}&${FIRST_PAGE}`);
    expect(data.length > 0, `the console finds ${kind} with ${filter}`);
  }
}

/** The forms: a record is created, changed and read anew, with what is related to it. Returns the records, the first made first. */
async function forms(send, base) {
  const made = [];
  const save = async (kind, body, change, related = []) => {
    const { id } = (await send("POST", `${base}/${kind}`, body)).data;
    made.push([kind, id]);
    await send("PATCH", `${base}/${kind}/${id}`, { ...body, ...change });
    // The console leaves a blank part at the end of the path where it asks for one record, and one in the middle where it asks again.
    for (const path of [`${kind}/${id}/`, `/${kind}/${id}`])
      expect((await send("GET", `${base}/${path}`)).data.id === id, `the console reads ${path}`);
    for (const name of related) await send("GET", `${base}/${kind}/${id}/${name}`);
    return id;
  };
  const identity = {
    name: "made-by-console",
    type: "Default",
    isAdmin: false,
    roleAttributes: ["console"],
    authPolicyId: "default",
    defaultHostingCost: 0,
    defaultHostingPrecedence: "default",
    serviceHostingCosts: {},
    serviceHostingPrecedences: {},
    externalId: null,
    ...SHARED,
  };
  const { id: who } = (
    await send("POST", `${base}/identities`, { ...identity, enrollment: { ott: true } })
  ).data;
  made.push(["identities", who]);
  await send("PATCH", `${base}/identities/${who}`, {
    ...identity,
    name: "changed-by-console",
    roleAttributes: ["console", "more"],
  });
  for (const related of [
    "services",
    "service-policies",
    "edge-routers",
    "authenticators",
    "enrollments",
  ])
    await send("GET", `${base}/identities/${who}/${related}`);
  const types = (
    await send(
      "GET",
      `${base}/config-types?filter=(name contains "intercept.v1")&limit=1&offset=0&sort=name asc`,
    )
  ).data;
  await send("GET", `${base}/config-types/${types[0].id}`);
  const data = {
    protocols: ["tcp"],
    addresses: ["console.internal"],
    portRanges: [{ low: 80, high: 80 }],
  };
  const config = await save(
    "configs",
    { name: "console-config", configTypeId: types[0].id, data },
    { data: { ...data, protocols: ["udp"] } },
  );
  const what = await save(
    "services",
    {
      name: "console-service",
      encryptionRequired: true,
      roleAttributes: ["console"],
      configs: [config],
      terminatorStrategy: "smartrouting",
      tags: {},
    },
    { roleAttributes: ["console", "more"] },
    ["configs", "service-policies", "identities", "terminators"],
  );
  const router = await save(
    "edge-routers",
    {
      name: "console-router",
      roleAttributes: ["console"],
      isTunnelerEnabled: true,
      noTraversal: false,
      cost: 0,
      ...SHARED,
    },
    { cost: 5 },
    ["identities", "services", "edge-router-policies"],
  );
  await save(
    "transit-routers",
    { name: "console-transit", noTraversal: false, cost: 0, tags: {} },
    { cost: 5 },
  );
  const rule = { name: "console-policy", semantic: "AnyOf", tags: {} };
  await save(
    "service-policies",
    {
      ...rule,
      type: "Dial",
      identityRoles: ["#console"],
      serviceRoles: [`@${what}`],
      postureCheckRoles: [],
    },
    { identityRoles: ["#console", "#more"] },
    ["identities", "services", "posture-checks"],
  );
  await save(
    "edge-router-policies",
    { ...rule, identityRoles: ["#console"], edgeRouterRoles: [`@${router}`] },
    { edgeRouterRoles: ["#console"] },
    ["identities", "edge-routers"],
  );
  await save(
    "service-edge-router-policies",
    { ...rule, serviceRoles: ["#console"], edgeRouterRoles: [`@${router}`] },
    { edgeRouterRoles: ["#console"] },
    ["services", "edge-routers"],
  );
  await save(
    "posture-checks",
    {
      name: "console-check",
      typeId: "OS",
      operatingSystems: [{ type: "Linux", versions: [] }],
      roleAttributes: [],
      tags: {},
    },
    { roleAttributes: ["console"] },
  );
  await save(
    "config-types",
    { name: "console-type", schema: { type: "object" }, tags: {} },
    { schema: { type: "object", properties: {} } },
  );
  const { data: advice } = await send("GET", `${base}//identities/${who}/policy-advice/${what}`);
  expect(
    advice.isDialAllowed === true && advice.commonRouters.length > 0,
    `the console learns that the service may be dialed: ${JSON.stringify(advice)}`,
  );
  const override = [{ serviceId: what, configId: config }];
  await send("POST", `${base}/identities/${who}/service-configs`, override);
  expect(
    (await send("GET", `${base}/identities/${who}/service-configs`)).data.length === 1,
    "the console overrides a config",
  );
  await send("DELETE", `${base}/identities/${who}/service-configs`, override);
  await send("POST", `${base}/identities/${who}/disable`, { durationMinutes: 0 });
  await send("POST", `${base}/identities/${who}/enable`);
  const enrollment = (await send("GET", `${base}/identities/${who}/enrollments`)).data[0].id;
  await send("POST", `${base}/enrollments/${enrollment}/refresh`, {
    expiresAt: new Date(Date.now() + 3600000).toISOString(),
  });
  await resetEnrollment(send, base, who);
  return made;
}

/** The console lets an enrolled identity enroll anew. */
async function resetEnrollment(send, base, who) {
  const shown = async () => (await send("GET", `${base}/identities/${who}/`)).data;
  await enroll((await shown()).enrollment.ott.jwt);
  const { id } = (await shown()).authenticators.cert;
  await send("POST", `${base}/authenticators/${id}/re-enroll`, {
    expiresAt: new Date(Date.now() + 3600000).toISOString(),
  });
  expect(
    (await shown()).enrollment.ott?.jwt && !(await shown()).authenticators.cert,
    "the console lets an identity enroll anew",
  );
}

/** A certificate authority, and the certificate with which it proves that it has the key. */
function authority(work) {
  const file = (name) => path.join(work, name);
  const openssl = (...options) => execFileSync("openssl", options, { stdio: "ignore" });
  const key = (name) => [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
    "-keyout",
    file(name),
  ];
  openssl(
    "req",
    "-x509",
    ...key("ca.key"),
    "-subj",
    "/CN=console",
    "-days",
    "30",
    "-addext",
    "keyUsage=critical,keyCertSign",
    "-out",
    file("ca.pem"),
  );
  const prove = (name) => {
    openssl("req", ...key("proof.key"), "-subj", `/CN=${name}`, "-out", file("proof.csr"));
    openssl(
      "x509",
      "-req",
      "-in",
      file("proof.csr"),
      "-CA",
      file("ca.pem"),
      "-CAkey",
      file("ca.key"),
      "-CAcreateserial",
      "-days",
      "1",
      "-out",
      file("proof.pem"),
    );
    return fs.readFileSync(file("proof.pem"), "utf8");
  };
  return { certificate: fs.readFileSync(file("ca.pem"), "utf8"), prove };
}

/** The forms that send the whole record: all members of the model of a kind, blank ones too, and replace it. Returns the records, the first made first. */
async function credentialForms(send, base) {
  const made = [];
  const save = async (kind, body, change, method = "PUT") => {
    const { id } = (await send("POST", `${base}/${kind}`, body)).data;
    made.push([kind, id]);
    const stored = (await send("GET", `${base}/${kind}/${id}/`)).data;
    await send(method, `${base}/${kind}/${id}`, { ...body, ...change, id });
    const now = (await send("GET", `${base}/${kind}/${id}/`)).data;
    for (const [member, value] of Object.entries(change))
      expect(
        JSON.stringify(now[member]) === JSON.stringify(value),
        `the console changes ${member} of ${kind} to ${JSON.stringify(now[member])}`,
      );
    return stored;
  };
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "page-"));
  const { certificate, prove } = authority(work);
  const signer = {
    name: "console-signer",
    audience: "console",
    issuer: "https://issuer.internal",
    clientId: "",
    claimsProperty: "",
    enabled: true,
    useExternalId: false,
    externalAuthUrl: "",
    kid: "console",
    scopes: [],
    certPem: certificate,
    tags: {},
    targetToken: "ACCESS",
    enrollToCertEnabled: false,
    enrollToTokenEnabled: false,
    enrollAuthPolicyId: "",
    enrollNameClaimsSelector: "",
    enrollAttributeClaimsSelector: "",
  };
  const { id: signerId } = await save("external-jwt-signers", signer, {
    audience: "changed",
    enabled: false,
    scopes: ["openid"],
  });
  const primary = {
    cert: { allowed: true, allowExpiredCerts: false },
    extJwt: { allowed: true, allowedSigners: [signerId] },
    updb: {
      allowed: true,
      lockoutDurationMinutes: 0,
      maxAttempts: 5,
      minPasswordLength: 5,
      requireMixedCase: false,
      requireNumberChar: false,
      requireSpecialChar: false,
    },
  };
  const policy = {
    name: "console-auth-policy",
    id: "",
    primary,
    secondary: { requireTotp: false },
    tags: {},
  };
  await save("auth-policies", policy, { name: "changed-by-console" });
  const ca = {
    name: "console-ca",
    id: "",
    isAutoCaEnrollmentEnabled: true,
    isOttCaEnrollmentEnabled: true,
    identityRoles: ["console"],
    identityNameFormat: "",
    isAuthEnabled: true,
    certPem: certificate,
    tags: {},
    verificationToke: "",
  };
  const { id: caId, verificationToken } = await save("cas", ca, {
    isAutoCaEnrollmentEnabled: false,
    identityRoles: ["console", "more"],
  });
  await send("POST", `${base}/cas/${caId}/verify`, prove(verificationToken), 200, "text/plain");
  expect(
    (await send("GET", `${base}/cas/${caId}/`)).data.isVerified === true,
    "the console verifies an authority",
  );
  const check = {
    roleAttributes: [],
    domains: [],
    macAddresses: [],
    operatingSystems: [],
    process: { hashes: [], osType: "", path: "", signerFingerprint: "" },
    timeoutSeconds: 0,
    tags: {},
  };
  const demands = [
    ["OS", { operatingSystems: [{ type: "Windows", versions: [">=10.0.0"] }] }],
    ["DOMAIN", { domains: ["console.internal"] }],
    ["MAC", { macAddresses: ["0011223344ff"] }],
    ["MFA", { timeoutSeconds: -1, promptOnWake: false, promptOnUnlock: false }],
    [
      "PROCESS",
      { process: { hashes: [], osType: "Linux", path: "/usr/bin/agent", signerFingerprint: "" } },
    ],
    [
      "PROCESS_MULTI",
      {
        semantic: "AnyOf",
        processes: [
          { osType: "Linux", path: "/usr/bin/agent", hashes: [], signerFingerprints: [] },
        ],
      },
    ],
  ];
  for (const [typeId, demand] of demands)
    await save(
      "posture-checks",
      { ...check, name: `console-check-${typeId}`, typeId, ...demand },
      { roleAttributes: ["console"] },
      "PATCH",
    );
  fs.rmSync(work, { recursive: true });
  return made;
}

/** A terminator, and the sessions, which the console shows and ends. */
async function terminatorsAndSessions(send, base) {
  const { id: service } = (
    await send("POST", `${base}/services`, {
      name: "console-terminated",
      encryptionRequired: false,
      roleAttributes: [],
      configs: [],
      tags: {},
    })
  ).data;
  const router = (await send("GET", `${base}/routers?filter=&limit=-1&offset=0&sort=name asc`))
    .data[0].id;
  const terminator = {
    service,
    identity: "",
    router,
    binding: "transport",
    precedence: "default",
    address: "tcp:127.0.0.1:5432",
    cost: 0,
    identitySecret: "",
  };
  const { id } = (await send("POST", `${base}/terminators`, terminator)).data;
  await send("PATCH", `${base}/terminators/${id}`, {
    ...terminator,
    cost: 7,
    precedence: "required",
  });
  const changed = (await send("GET", `${base}/terminators/${id}/`)).data;
  expect(
    changed.cost === 7 && changed.precedence === "required",
    `the console changes a terminator: ${JSON.stringify(changed)}`,
  );
  expect(
    (
      await send(
        "GET",
        `${base}/terminators?filter=service.name contains "console-term"&limit=50&offset=0&sort=service.name asc`,
      )
    ).data.length === 1,
    "the console finds a terminator by its service",
  );
  const { id: self } = (await send("GET", `${base}/current-identity`)).data;
  const { id: policy } = (
    await send("POST", `${base}/service-policies`, {
      name: "console-dials",
      type: "Dial",
      semantic: "AnyOf",
      identityRoles: [`@${self}`],
      serviceRoles: [`@${service}`],
      postureCheckRoles: [],
      tags: {},
    })
  ).data;
  const session = (
    await send("POST", "/edge/client/v1/sessions", { serviceId: service, type: "Dial" })
  ).data.id;
  const { apiSession } = (await send("GET", `${base}/sessions/${session}/`)).data;
  expect(
    (await send("GET", `${base}/api-sessions/${apiSession.id}/`)).data.id === apiSession.id,
    "the console shows an API session",
  );
  await send("DELETE", `${base}/sessions/${session}`);
  const other = (
    await send("POST", `${base}/authenticate?method=password`, { username: user, password })
  ).data.id;
  await send("DELETE", `${base}/api-sessions/${other}`);
  await send("DELETE", `${base}/terminators/${id}`);
  await send("DELETE", `${base}/service-policies/${policy}`);
  await send("DELETE", `${base}/services/${service}`);
}

/** The console logs in, shows its dashboard and each list, and saves each form. */
export async function openZitiConsole(browser) {
  const server = http.createServer((_, answer) =>
    answer.setHeader("content-type", "text/html").end("<!doctype html><title>console</title>"),
  );
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  try {
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    const state = sender(page);
    const base = await logIn(state);
    await dashboardAndLists(state.send, base);
    await terminatorsAndSessions(state.send, base);
    const made = [...(await forms(state.send, base)), ...(await credentialForms(state.send, base))];
    for (const [kind, id] of made.reverse()) await state.send("DELETE", `${base}/${kind}/${id}`);
    await state.send("DELETE", `${base}/current-api-session`);
  } finally {
    await context.close();
    server.close();
  }
}
