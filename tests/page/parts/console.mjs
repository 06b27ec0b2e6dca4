// The requests of the console of OpenZiti, sent from its place: a page of another origin in the browser, so that the rules of the browser
// for requests across origins apply. Read from its sources (openziti/ziti-console: the login and data services, the pages, forms, models and tables),
// because its library is not in the registry of npm.

import http from "node:http";
import { expect, origin, password, user } from "../browser.mjs";
import { credentialForms } from "./console/credentials.mjs";
import { forms } from "./console/forms.mjs";
import { dashboardAndLists } from "./console/lists.mjs";

const DISCOVERED = "/edge/management/v1/version";

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
