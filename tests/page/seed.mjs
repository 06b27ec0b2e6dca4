// Fills an empty controller with a small company: identities with roles, services, policies, configs, checks, and some history.
//
//     node seed.mjs            with OVERKEEP_URL, OVERKEEP_USER and OVERKEEP_PASSWORD in the environment

const PEOPLE = {
  sales: ["alice", "bruno", "chen", "dalia", "emre"],
  engineering: ["farah", "goran", "hana", "ivan", "jun", "kofi"],
  support: ["lena", "marco"],
};
const HOSTS = ["database-host", "wiki-host", "builds-host"];
const SERVICES = {
  database: ["databases"],
  reporting: ["databases"],
  wiki: ["intranet"],
  calendar: ["intranet"],
  builds: ["tools"],
  artifacts: ["tools"],
};
const INTERCEPT = "g7cIWbcGg"; // the config type `intercept.v1`

/** Logs in at `url`. Returns a function that sends requests as its administrator. */
export async function administrator(url, username, password) {
  let token;
  const ask = async (method, path, body) => {
    const base = path.startsWith("/overkeep/") ? "" : "/edge/management/v1";
    const headers = {
      "content-type": "application/json",
      ...(token ? { "zt-session": token } : {}),
    };
    const answer = await fetch(url + base + path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${text}`);
    return text ? JSON.parse(text).data : null;
  };
  token = (await ask("POST", "/authenticate?method=password", { username, password })).token;
  return ask;
}

/** Creates many records, by kind, in one request. */
export const createMany = (ask, records) => ask("PUT", "/overkeep/v1/network", records);

/** Creates the records. Returns their ids by name. */
export async function seed(ask) {
  const ids = {};
  const make = async (path, body) => {
    ids[body.name] = (await ask("POST", path, body)).id;
  };
  for (const [role, names] of Object.entries(PEOPLE)) {
    for (const name of names) {
      await make("/identities", {
        name,
        type: "Default",
        isAdmin: false,
        roleAttributes: [role, "staff"],
        enrollment: { ott: true },
      });
    }
  }
  for (const name of HOSTS)
    await make("/identities", {
      name,
      type: "Default",
      isAdmin: false,
      roleAttributes: ["hosts"],
      enrollment: { ott: true },
    });
  for (const [name, roleAttributes] of Object.entries(SERVICES)) {
    const config = {
      name: `${name}-address`,
      configTypeId: INTERCEPT,
      data: {
        protocols: ["tcp"],
        addresses: [`${name}.internal`],
        portRanges: [{ low: 443, high: 443 }],
      },
    };
    await make("/configs", config);
    await make("/services", {
      name,
      encryptionRequired: true,
      roleAttributes,
      configs: [ids[config.name]],
    });
  }
  await make("/posture-checks", {
    name: "office machines",
    typeId: "OS",
    operatingSystems: [{ type: "Linux", versions: [">=5.0.0"] }],
    roleAttributes: ["managed"],
  });
  const policy = (name, type, identityRoles, serviceRoles, postureCheckRoles = []) =>
    make("/service-policies", {
      name,
      type,
      semantic: "AnyOf",
      identityRoles,
      serviceRoles,
      postureCheckRoles,
    });
  await policy("staff reads the intranet", "Dial", ["#staff"], ["#intranet"]);
  await policy("sales reaches databases", "Dial", ["#sales"], ["#databases"], ["#managed"]);
  await policy(
    "engineering reaches tools",
    "Dial",
    ["#engineering"],
    ["#tools", `@${ids.database}`],
  );
  await policy("hosts serve", "Bind", ["#hosts"], ["#all"]);
  await policy("lena reaches reporting", "Dial", [`@${ids.lena}`], [`@${ids.reporting}`]);
  await make("/edge-routers", {
    name: "branch-office",
    roleAttributes: ["branch"],
    isTunnelerEnabled: false,
  });
  await make("/edge-router-policies", {
    name: "everybody over every router",
    semantic: "AnyOf",
    identityRoles: ["#all"],
    edgeRouterRoles: ["#all"],
  });
  await make("/service-edge-router-policies", {
    name: "everything over every router",
    semantic: "AnyOf",
    serviceRoles: ["#all"],
    edgeRouterRoles: ["#all"],
  });
  await ask("PATCH", `/identities/${ids.ivan}`, { roleAttributes: ["engineering"] });
  await ask("POST", `/identities/${ids.jun}/disable`, { durationMinutes: 0 });
  await ask("POST", "/authenticate?method=password", {
    username: "admin",
    password: "not the password",
  }).catch(() => null);
  return ids;
}

if (process.argv[1]?.endsWith("seed.mjs")) {
  await seed(
    await administrator(
      process.env.OVERKEEP_URL,
      process.env.OVERKEEP_USER,
      process.env.OVERKEEP_PASSWORD,
    ),
  );
}
