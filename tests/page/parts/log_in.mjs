// Every way to log in, and what happens to a session afterwards.

import { execFileSync } from "node:child_process";
import { SETTLED, check, expect, logIn, open, origin, typeIn, windowOf } from "../browser.mjs";
import { code, enroll } from "../client.mjs";
import { issuer } from "../issuer.mjs";
import { administrator } from "../seed.mjs";

export * from "./secret.mjs";
export * from "./session.mjs";

/** Log-in with a one-time code; an identity that is not an administrator is turned away. */
export async function secondFactor(browser, ask, ids) {
  const make = async (name, isAdmin) => {
    const { id } = await ask("POST", "/identities", { name, type: "Default", isAdmin });
    await ask("POST", "/authenticators", {
      identityId: id,
      method: "updb",
      username: name,
      password: "correct horse battery",
    });
  };
  await make("second-admin", true);
  await make("no-admin", false);
  const theirs = await administrator(origin, "second-admin", "correct horse battery");
  await theirs("POST", "/current-identity/mfa");
  const { provisioningUrl } = await theirs("GET", "/current-identity/mfa");
  const secret = new URL(provisioningUrl).searchParams.get("secret");
  await theirs("POST", "/current-identity/mfa/verify", {
    code: code(secret, Date.now() - 30000),
  }).catch(() => theirs("POST", "/current-identity/mfa/verify", { code: code(secret) }));
  const page = await windowOf(
    browser,
    1280,
    "light",
    (answer) =>
      (answer.url().includes("/authenticate/mfa") && answer.status() === 400) ||
      (answer.status() === 401 && !answer.url().includes("preview")),
  );
  await logIn(page, "second-admin", "correct horse battery");
  await page.getByLabel("One-time code").waitFor();
  await page.keyboard.type("000000");
  await page.keyboard.press("Enter");
  await page.locator(".problem").waitFor();
  await page.getByLabel("One-time code").fill(code(secret));
  await page.keyboard.press("Enter");
  await page.waitForFunction(SETTLED);
  // The preview of a form that was kept is asked for after the code, not before it.
  await open(page, `#/services/${ids.artifacts}/edit`);
  await page.getByLabel("Name").fill("artifacts of all");
  await page.locator(".preview .quiet").waitFor();
  await ask(
    "DELETE",
    `/api-sessions/${await page.evaluate(() => JSON.parse(sessionStorage.getItem("overkeep-session")).id)}`,
  );
  await typeIn(page, "second-admin", "correct horse battery");
  await page.getByLabel("One-time code").fill(code(secret, Date.now() + 30000));
  const preview = page.waitForResponse((answer) => answer.url().includes("preview=true"));
  await page.keyboard.press("Enter");
  expect(
    (await preview).ok(),
    "the preview of a form is not asked for anew after a log-in with a one-time code",
  );
  await page.locator(".preview .quiet").waitFor();
  page.once("dialog", (dialog) => dialog.accept());
  await page.getByRole("button", { name: "Log out" }).click();
  await page.locator("#username").waitFor();
  await logIn(page, "no-admin", "correct horse battery");
  await page.getByText("This page is for administrators").waitFor();
  expect(
    (await page.evaluate(() => sessionStorage.length)) === 0,
    "sessionStorage is empty after the session has ended",
  );
  await page.context().close();
}

/** A one-time link logs in once and leaves the address. */
export async function link(browser) {
  const page = await windowOf(browser, 1280, "light", (answer) => answer.status() === 401);
  const [printed] = execFileSync(process.env.BINARY, ["admin", "link"], { encoding: "utf8" }).split(
    "\n",
  );
  const here = `${origin}/${new URL(printed).hash}`;
  await page.goto(here);
  await page.waitForFunction(SETTLED);
  expect(
    !page.url().includes("link") && (await page.evaluate(() => history.length)) <= 2,
    "the link leaves the address",
  );
  await page.getByRole("button", { name: "Log out" }).click();
  await page.goto("about:blank");
  await page.goto(here);
  await page.getByText("This link was used already").waitFor();
  await page.context().close();
}

/** An API token made on the page logs in, and stays valid after the log-out. */
export async function apiToken(browser, ask) {
  const page = await windowOf(browser, 1280, "light", (answer) => answer.status() === 401);
  await page.goto(`${origin}/`);
  await page.getByText("Log in with an API token").click();
  await page.getByLabel("API token").fill("ovk_nothing");
  await page.getByRole("button", { name: "Use the token" }).click();
  await page.getByText("This API token is unknown").waitFor();
  await logIn(page);
  await page.waitForFunction(SETTLED);
  await open(page, "#/api-tokens/_new");
  await page.getByLabel("Name").fill("for the page");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  const secret = await page.getByRole("dialog").locator("pre").textContent();
  await check(page, "the secret of a new API token", true);
  await page.getByRole("dialog").getByRole("button", { name: "It is stored" }).click();
  await page.getByRole("heading", { level: 1, name: "for the page" }).waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByText("Log in with an API token").click();
  await page.getByLabel("API token").fill(secret);
  await page.getByRole("button", { name: "Use the token" }).click();
  await page.waitForFunction(SETTLED);
  await page.getByRole("button", { name: "Log out" }).click();
  await page.locator("#username").waitFor();
  expect(
    (await ask("GET", "/overkeep/v1/api-tokens")).length === 1,
    "logging out does not revoke the token",
  );
  // What is outside the scope is refused, and the person stays logged in.
  const { id, token } = await ask("POST", "/overkeep/v1/api-tokens", {
    name: "reads",
    actions: ["read"],
  });
  await page.getByText("Log in with an API token").click();
  await page.getByLabel("API token").fill(token);
  await page.getByRole("button", { name: "Use the token" }).click();
  await page.waitForFunction(SETTLED);
  // The page offers nothing outside of the scope, so that its own function sends what is refused.
  const status = await page.evaluate(() =>
    import("/page/api.js")
      .then(({ ask }) =>
        ask("POST", "/identities", {
          body: { name: "not allowed", type: "Default", isAdmin: false },
        }),
      )
      .then(
        () => 201,
        (error) => error.status,
      ),
  );
  expect(status === 401, `a token that only reads creates: ${status}`);
  expect(
    (await page.locator("#username").count()) === 0,
    "a refusal outside the scope does not log out",
  );
  await ask("DELETE", `/overkeep/v1/api-tokens/${id}`);
  await page.context().close();
}

/** Log-in at the issuer of an external signer, which sends the browser back; the same address does not log in again. */
export async function signer(browser, ask) {
  const { id } = await ask("POST", "/identities", {
    name: "admin at an issuer",
    type: "Default",
    isAdmin: true,
  });
  const running = await issuer(id);
  const company = await ask("POST", "/external-jwt-signers", {
    name: "the company",
    issuer: running.url,
    audience: "overlay",
    enabled: true,
    jwksEndpoint: `${running.url}/keys`,
    externalAuthUrl: running.url,
    clientId: "overkeep-page",
  });
  const page = await windowOf(browser, 1280, "light", (answer) => answer.status() === 401, {}, [
    running.url,
  ]);
  const back = [];
  page.on(
    "request",
    (request) => request.url().includes("/page/signed-in") && back.push(request.url()),
  );
  await page.goto(`${origin}/`);
  await page.getByRole("button", { name: "Log in with the company" }).waitFor();
  for (const width of [360, 1280]) {
    await page.setViewportSize({ width, height: 780 });
    await check(page, `the log-in page at ${width} px`, true);
  }
  await page.getByRole("button", { name: "Log in with the company" }).click();
  await page.waitForFunction(SETTLED);
  await page.getByText("admin at an issuer").first().waitFor();
  expect(page.url() === `${origin}/#/overview`, `the code leaves the address: ${page.url()}`);
  expect(
    (await page.evaluate(() => sessionStorage.length)) === 1,
    "the secret of the log-in is gone",
  );
  await page.getByRole("button", { name: "Log out" }).click();
  await page.goto(back[0]);
  await page.getByText("This log-in took too long").waitFor();
  await page.goto(`${origin}/page/signed-in?error=access_denied&error_description=%3Cb%3E`);
  await page.getByText("The issuer refused the log-in: access_denied.").waitFor();
  await page.context().close();
  // Identities that can log in at an issuer need no enrollment: the other parts expect that they do.
  await ask("DELETE", `/external-jwt-signers/${company.id}`);
  running.stop();
}

/** The certificate of an enrolled administrator, which the browser has, logs in. */
export async function certificate(browser, ask) {
  const { id } = await ask("POST", "/identities", {
    name: "admin with a certificate",
    type: "Default",
    isAdmin: true,
    enrollment: { ott: true },
  });
  const { enrollment } = await ask("GET", `/identities/${id}`);
  const { key, cert } = await enroll(enrollment.ott.jwt);
  const page = await windowOf(browser, 1280, "light", undefined, {
    clientCertificates: [{ origin, cert: Buffer.from(cert), key: Buffer.from(key) }],
  });
  await page.goto(`${origin}/`);
  await page.getByRole("button", { name: "Log in with the browser’s certificate" }).click();
  await page.waitForFunction(SETTLED);
  await page.getByText("admin with a certificate").first().waitFor();
  await page.context().close();
}
