// The requests of the dashboard and of the lists of the console of OpenZiti.

import { expect } from "../../browser.mjs";

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

export async function dashboardAndLists(send, base) {
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
