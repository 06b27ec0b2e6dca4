// A secret that is shown once.

import { SETTLED, check, expect, logIn, open, typeIn, windowOf } from "../browser.mjs";

/** The secret of a new API token stays until the person says that it is stored, also over a log-in by the same person. */
export async function secretShownOnce(browser, ask) {
  const page = await windowOf(browser, 1280, "light", (answer) => answer.status() === 401, {
    permissions: ["clipboard-read", "clipboard-write"],
  });
  const { id: other } = await ask("POST", "/identities", {
    name: "other-admin",
    type: "Default",
    isAdmin: true,
  });
  await ask("POST", "/authenticators", {
    identityId: other,
    method: "updb",
    username: "other-admin",
    password: "correct horse battery",
  });
  const dialog = page.getByRole("dialog");
  const button = (name) => dialog.getByRole("button", { name, exact: true });
  const end = async () => {
    await ask(
      "DELETE",
      `/api-sessions/${await page.evaluate(() => JSON.parse(sessionStorage.getItem("overkeep-session")).id)}`,
    );
    await page.getByText("What you had open is kept for 15 minutes").waitFor();
  };
  await logIn(page);
  await page.waitForFunction(SETTLED);
  await open(page, "#/api-tokens/_new");
  await page.getByLabel("Name").fill("shown once");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  const secret = await dialog.locator("pre").textContent();
  // Neither Esc, however often, nor a click beside the dialog closes it.
  for (let press = 0; press < 3; press++) await page.keyboard.press("Escape");
  await dialog.getByText("It cannot be shown again").waitFor();
  await check(page, "the question about a secret", true);
  await button("Keep it open").click();
  await page.mouse.click(5, 400);
  await dialog.getByText("It cannot be shown again").waitFor();
  await button("Keep it open").click();
  await button("Copy").click();
  await button("Copied").waitFor();
  expect(
    (await page.evaluate(() => navigator.clipboard.readText())) === secret,
    "the secret that is copied is the one that is shown",
  );
  const asked = new Promise((done) =>
    page.once("dialog", (question) => question.dismiss().then(() => done(question.message()))),
  );
  await page.evaluate(() => {
    location.hash = "#/overview";
  });
  expect(
    /secret/.test(await asked) && (await dialog.locator("pre").textContent()) === secret,
    "the page of a secret is left only if the person agrees",
  );
  // While nobody is logged in, the secret is nowhere in the document; the same person finds it again.
  await end();
  expect(
    !(await page.content()).includes(secret),
    "the secret is not in the document without a session",
  );
  await typeIn(page);
  await dialog.waitFor();
  expect(
    (await dialog.locator("pre").textContent()) === secret,
    "the same person finds the secret again",
  );
  await end();
  await typeIn(page, "other-admin", "correct horse battery");
  await page.locator(".who").getByText("other-admin", { exact: true }).waitFor();
  await page.waitForFunction(SETTLED);
  expect(
    !(await dialog.count()) && !(await page.content()).includes(secret),
    "another person does not find the secret",
  );
  await page.context().close();
  await ask("DELETE", `/identities/${other}`);
  const [made] = await ask("GET", "/overkeep/v1/api-tokens").then((tokens) =>
    tokens.filter(({ name }) => name === "shown once"),
  );
  await ask("DELETE", `/overkeep/v1/api-tokens/${made.id}`);
}

/** A secret or a form is kept for 15 minutes by the clock of the machine, also if its timers stood still while it slept. */
export async function keptInSleep(browser, ask, ids) {
  const page = await windowOf(browser, 1280, "light", (answer) => answer.status() === 401);
  await page.clock.install();
  const sleep = async (minutes) =>
    page.clock.setSystemTime((await page.evaluate(() => Date.now())) + minutes * 60000);
  const end = async () => {
    await ask(
      "DELETE",
      `/api-sessions/${await page.evaluate(() => JSON.parse(sessionStorage.getItem("overkeep-session")).id)}`,
    );
    await page.getByText("What you had open is kept for 15 minutes").waitFor();
  };
  const form = async (name) => {
    await open(page, `#/services/${ids.artifacts}/edit`);
    await page.getByLabel("Name").fill(name);
    await end();
  };
  await logIn(page);
  await page.waitForFunction(SETTLED);
  await open(page, "#/api-tokens/_new");
  await page.getByLabel("Name").fill("shown before a sleep");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("dialog").locator("pre").waitFor();
  await end();
  // Nothing tells the page that the machine woke up: the log-in asks for the secret.
  await sleep(16);
  await typeIn(page);
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.waitForFunction(SETTLED);
  expect(!(await page.getByRole("dialog").count()), "a secret is shown after more than 15 minutes");
  await form("kept");
  await sleep(14);
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await typeIn(page);
  await page.locator(".editor").waitFor();
  await page.locator("#username").waitFor({ state: "detached" });
  expect((await page.getByLabel("Name").inputValue()) === "kept", "a form is kept for 14 minutes");
  await page.getByLabel("Name").fill("dropped");
  await end();
  await sleep(16);
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await page.getByText("What you had open was discarded after 15 minutes.").waitFor();
  await page.context().close();
  const made = (await ask("GET", "/overkeep/v1/api-tokens")).find(
    ({ name }) => name === "shown before a sleep",
  );
  await ask("DELETE", `/overkeep/v1/api-tokens/${made.id}`);
}
