// The requests of the forms of the console of OpenZiti.

import { expect } from "../../browser.mjs";
import { enroll } from "../../client.mjs";

const SHARED = { appData: {}, tags: {} };

/** The forms: a record is created, changed and read anew, with what is related to it. Returns the records, the first made first. */
export async function forms(send, base) {
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
