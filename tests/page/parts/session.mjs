// What happens to a session, to its token, and to what the person chose.

import { SETTLED, check, expect, open, origin, signedIn, typeIn, windowOf } from "../browser.mjs";

const sessionOf = (page) =>
  page.evaluate(() => JSON.parse(sessionStorage.getItem("overkeep-session")));

/** The title of the window is that of the page again, and its heading has the focus. */
async function isBack(page, title) {
  await page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
  await page
    .waitForFunction(() => document.activeElement.matches("h1"), null, { timeout: 5000 })
    .catch(() => expect(false, `after the log-in the focus is not on the heading of ${title}`));
  expect(
    (await page.title()) === `${title} – Overkeep`,
    `after the log-in the title is ${await page.title()}`,
  );
}

/** A session that ended elsewhere leads to the log-in page and back. A form with changes is kept meanwhile. */
export async function endedSession(browser, ask, ids) {
  const page = await signedIn(browser, 1280, "light", (answer) => answer.status() === 401);
  const end = async () => ask("DELETE", `/api-sessions/${(await sessionOf(page)).id}`);
  await open(page, `#/identities/${ids.emre}/edit`);
  await page.getByLabel("Name").fill("emre the kept");
  await page.locator(".preview .quiet").waitFor();
  await end();
  // Whichever comes first: the stream of events ends, or the request that saves is refused.
  await page
    .getByRole("button", { name: "Save" })
    .click({ timeout: 1000 })
    .catch(() => null);
  await page.getByText("Your session ended. Log in again. What you had open is kept").waitFor();
  await check(page, "the log-in page with a form behind it", true);
  expect((await sessionOf(page)) === null, "the token of a session that ended is forgotten");
  await typeIn(page);
  await isBack(page, "Edit emre");
  expect((await page.getByLabel("Name").inputValue()) === "emre the kept", "the form is as it was");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { level: 1, name: "emre the kept" }).waitFor();
  expect(
    (await ask("GET", `/identities/${ids.emre}`)).name === "emre the kept",
    "what was typed before the session ended is stored",
  );
  await page.locator(".pulse.on").waitFor();
  await end();
  await page.evaluate(() => {
    location.hash = "#/live";
  });
  await page.getByText("Your session ended. Log in again.", { exact: true }).waitFor();
  // What happens until the log-in is shown after it.
  const { id: made } = await ask("POST", "/services", {
    name: "made meanwhile",
    encryptionRequired: true,
  });
  await typeIn(page);
  await isBack(page, "Live");
  await page
    .getByRole("log")
    .locator("li.of-create")
    .filter({ hasText: "made meanwhile" })
    .waitFor();
  await ask("DELETE", `/services/${made}`);
  // Who logs out is asked about changes, and then they are gone.
  await open(page, `#/identities/${ids.emre}/edit`);
  await page.getByLabel("Name").fill("emre the lost");
  const asked = new Promise((done) => page.once("dialog", (dialog) => dialog.accept().then(done)));
  await page.getByRole("button", { name: "Log out" }).click();
  await asked;
  await page.locator("#username").waitFor();
  expect(
    !(await page.getByText("Your session ended").count()) &&
      (await page.getByLabel("Name", { exact: true }).count()) === 0,
    "a form is not kept after a log-out",
  );
  await page.context().close();
  await ask("PATCH", `/identities/${ids.emre}`, { name: "emre" });
}

/** Everything that a browser keeps for a page, by the place where it is. */
const KEPT = async () => {
  const databases = await indexedDB.databases();
  const caches = await window.caches.keys();
  const workers = await navigator.serviceWorker.getRegistrations();
  return {
    localStorage: JSON.stringify({ ...localStorage }),
    sessionStorage: JSON.stringify({ ...sessionStorage }),
    cookies: document.cookie,
    databases: JSON.stringify(databases),
    caches: JSON.stringify(caches),
    workers: String(workers.length),
    address: location.href,
    state: JSON.stringify(history.state),
    name: window.name,
    document: document.documentElement.outerHTML,
  };
};

/** The token of a session is in the storage of the tab and nowhere else, and leaves it at the log-out. */
export async function whereTheTokenIs(browser, ask, ids) {
  const page = await signedIn(browser, 1280, "light");
  const { token } = await sessionOf(page);
  for (const hash of ["#/overview", "#/live", "#/care", `#/identities/${ids.alice}`]) {
    await open(page, hash);
    const kept = await page.evaluate(KEPT);
    const places = Object.keys(kept).filter((place) => kept[place].includes(token));
    expect(places.join() === "sessionStorage", `${hash}: the token is in ${places.join(", ")}`);
    expect(
      kept.databases === "[]" &&
        kept.caches === "[]" &&
        kept.workers === "0" &&
        kept.cookies === "",
      `${hash}: something is kept in a database, a cache or a cookie: ${JSON.stringify(kept).slice(0, 300)}`,
    );
    expect(
      Object.keys(JSON.parse(kept.sessionStorage)).join() === "overkeep-session",
      `${hash}: the tab keeps ${kept.sessionStorage}`,
    );
  }
  expect(!(await page.context().cookies()).length, "there is no cookie that scripts cannot read");
  // Another tab of the same browser is not logged in.
  const other = await page.context().newPage();
  await other.goto(`${origin}/`);
  await other.locator("#username").waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.locator("#username").waitFor();
  const left = await page.evaluate(KEPT);
  expect(
    !Object.values(left).some((value) => value.includes(token)),
    "the token is gone after the log-out",
  );
  await page.context().close();
}

/** Light, dark, or as the system is. The choice stays. */
export async function theme(browser) {
  const page = await signedIn(browser, 1280, "light");
  const ground = () =>
    page.evaluate(() =>
      getComputedStyle(document.documentElement)
        .backgroundColor.match(/\d+/g)
        .slice(0, 3)
        .reduce((sum, part) => sum + Number(part), 0),
    );
  const isDark = async () => (await ground()) < 3 * 128;
  const choose = (name) => page.getByLabel("Appearance").selectOption(name);
  expect(!(await isDark()), "the page is light where the system is");
  await choose("dark");
  expect(await isDark(), "dark was chosen in a light system");
  await check(page, "the overview, dark by choice", true);
  await page.reload();
  await page.waitForFunction(SETTLED);
  expect(
    (await isDark()) && (await page.getByLabel("Appearance").inputValue()) === "dark",
    "the choice stays after a reload",
  );
  await page.emulateMedia({ colorScheme: "dark" });
  await choose("light");
  expect(!(await isDark()), "light was chosen in a dark system");
  await choose("system");
  expect(await isDark(), "the page follows a dark system");
  await page.emulateMedia({ colorScheme: "light" });
  expect(!(await isDark()), "the page follows a system that turns light");
  await page.context().close();
}

/** A copied text is in the clipboard, and a refused clipboard is said. */
export async function copy(browser, ask, ids) {
  const page = await windowOf(browser, 1280, "light", undefined, {
    permissions: ["clipboard-read", "clipboard-write"],
  });
  await page.goto(`${origin}/`);
  await typeIn(page);
  await page.waitForFunction(SETTLED);
  await open(page, `#/identities/${ids.goran}`);
  await page.getByRole("button", { name: "Copy", exact: true }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  const { enrollment } = await ask("GET", `/identities/${ids.goran}`);
  expect(
    (await page.evaluate(() => navigator.clipboard.readText())) === enrollment.ott.jwt,
    "the token that is copied is the one of the identity",
  );
  await page.evaluate(() => {
    navigator.clipboard.writeText = () => Promise.reject(new Error("refused"));
  });
  await open(page, "#/care");
  await page.getByRole("button", { name: "Copy" }).first().click();
  await page.getByRole("button", { name: "Not copied" }).first().waitFor();
  await page.context().close();
}
