// The own second factor and password of an administrator, invitations, and API tokens whose scope is small.

import { SETTLED, check, expect, logIn, open, origin, signedIn, windowOf } from "../browser.mjs";
import { code } from "../client.mjs";
import { administrator } from "../seed.mjs";

const PASSWORD = "correct horse battery";

/** An administrator with a password. */
async function person(ask, name, more = {}) {
  const { id } = await ask("POST", "/identities", {
    name,
    type: "Default",
    isAdmin: true,
    ...more,
  });
  await ask("POST", "/authenticators", {
    identityId: id,
    method: "updb",
    username: name,
    password: PASSWORD,
  });
  return id;
}

/** Sets up one-time codes in what is shown. Returns their secret. */
async function setUp(page, within) {
  await within.getByRole("button", { name: "Set up one-time codes" }).click();
  await within.getByRole("img", { name: "QR code for an authenticator app" }).waitFor();
  await within.getByText("Type the secret instead").click();
  const secret = await within
    .locator("details")
    .filter({ hasText: "Type the secret instead" })
    .last()
    .locator("pre")
    .first()
    .textContent();
  expect(
    (await within.locator("pre").last().innerText()).trim().split("\n").length >= 5,
    "recovery codes are shown",
  );
  await check(page, "one-time codes that are set up", true);
  await within.locator("#own-code").fill(code(secret));
  await within.getByRole("button", { name: "Confirm" }).last().click();
  return secret;
}

/** An administrator sets up one-time codes, makes new recovery codes, logs in with a code, changes the password, and removes the codes. */
export async function ownAccount(browser, ask) {
  const id = await person(ask, "careful-admin");
  const page = await windowOf(
    browser,
    1280,
    "light",
    (answer) =>
      answer.status() === 401 && answer.url().includes("/current-identity/authenticators/"),
  );
  await logIn(page, "careful-admin", PASSWORD);
  await page.waitForFunction(SETTLED);
  await page.locator(".foot .who a").click();
  await page.getByRole("heading", { level: 1, name: "Your account" }).waitFor();
  const content = page.locator("#content");
  const secret = await setUp(page, content);
  await page.getByText("every log-in asks for one").waitFor();
  expect((await ask("GET", `/identities/${id}`)).isMfaEnabled, "the identity has one-time codes");
  await page.getByRole("button", { name: "Make new recovery codes" }).click();
  await page.getByLabel("One-time code").fill(code(secret));
  await page.getByRole("button", { name: "Make new recovery codes" }).click();
  const kept = (await content.locator("pre").innerText()).trim().split("\n");
  expect(kept.length >= 5, `new recovery codes are shown: ${kept.length}`);
  // The password. A wrong one does not log out.
  const set = async (current, next, again = next) => {
    for (const [label, text] of [
      ["Current password", current],
      ["New password", next],
      ["The same once more", again],
    ])
      await page.getByLabel(label).fill(text);
    await page.getByRole("button", { name: "Change the password" }).click();
  };
  await set(PASSWORD, "another horse battery", "another house battery");
  await page.getByText("The two new passwords differ.").waitFor();
  await set("not the password", "another horse battery");
  await page.getByText("The current password is wrong.").waitFor();
  expect(
    !(await page.locator("#username").count()),
    "a wrong password on the account page logs out",
  );
  await set(PASSWORD, "another horse battery");
  await page.getByText("Your password is changed.").waitFor();
  await check(page, "the account", true);
  await page.getByRole("button", { name: "Log out" }).click();
  await logIn(page, "careful-admin", "another horse battery");
  await page.getByLabel("One-time code").fill(kept[0]);
  await page.keyboard.press("Enter");
  await page.waitForFunction(SETTLED);
  await open(page, "#/account");
  await page.getByRole("button", { name: "Remove one-time codes" }).click();
  await page.getByLabel("One-time code").fill(code(secret, Date.now() + 30000));
  await page.getByRole("button", { name: "Remove one-time codes" }).click();
  await page.getByRole("button", { name: "Set up one-time codes" }).waitFor();
  expect(!(await ask("GET", `/identities/${id}`)).isMfaEnabled, "the one-time codes are removed");
  await page.context().close();
  await ask("DELETE", `/identities/${id}`);
}

/** Who may log in only with one-time codes and has none sets them up in the log-in. */
export async function demandedFactor(browser, ask) {
  const { primary } = await ask("GET", "/auth-policies/default");
  const { id: policy } = await ask("POST", "/auth-policies", {
    name: "codes for administrators",
    primary,
    secondary: { requireTotp: true },
  });
  const id = await person(ask, "new-admin", { authPolicyId: policy });
  const page = await windowOf(browser, 360, "dark");
  await logIn(page, "new-admin", PASSWORD);
  await page.getByText("No authenticator app yet?").click();
  await setUp(page, page.locator("main.login"));
  await page.waitForFunction(SETTLED);
  await page.context().close();
  await ask("DELETE", `/identities/${id}`);
  await ask("DELETE", `/auth-policies/${policy}`);
}

/** An administrator is invited on the page, sets a password with the link, and is in. The link works once; whoever is no administrator is told so. */
export async function invitations(browser, ask) {
  const page = await signedIn(browser, 1280, "light", undefined, {
    permissions: ["clipboard-read", "clipboard-write"],
  });
  const invite = async (name, isAdmin) => {
    await open(page, "#/identities/_new");
    await page.getByLabel("Name").fill(name);
    if (isAdmin) await page.getByRole("switch", { name: "Administrator" }).check();
    await page.getByLabel("First log-in").selectOption("updb");
    expect(
      (await page.getByLabel("User name").inputValue()) === name,
      "the user name is the name at first",
    );
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("button", { name: "Copy the invitation" }).click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    const {
      id,
      enrollment: { updb },
    } = (await ask("GET", `/identities?${new URLSearchParams({ filter: `name = "${name}"` })}`))[0];
    const link = await page.evaluate(() => navigator.clipboard.readText());
    expect(link === `${origin}/#/invitation/${updb.token}`, `the invitation is ${link}`);
    return [id, link];
  };
  const [admin, link] = await invite("nina", true);
  await check(page, "an invitation", true);
  const theirs = await windowOf(
    browser,
    360,
    "light",
    (answer) => answer.status() === 400 && answer.url().includes("/enroll?"),
  );
  await theirs.goto(link);
  await theirs.getByRole("heading", { name: "Set your password" }).waitFor();
  expect(!theirs.url().includes("invitation"), "the invitation leaves the address");
  await check(theirs, "the page of an invitation", true);
  await theirs.getByLabel("New password").fill("abc");
  await theirs.getByLabel("The same once more").fill("abd");
  await theirs.keyboard.press("Enter");
  await theirs.getByText("The two new passwords differ.").waitFor();
  await theirs.getByLabel("New password").fill(PASSWORD);
  await theirs.getByLabel("The same once more").fill(PASSWORD);
  await theirs.keyboard.press("Enter");
  await theirs.waitForFunction(SETTLED);
  await administrator(origin, "nina", PASSWORD);
  await theirs.getByRole("button", { name: "Menu" }).click();
  await theirs.getByRole("button", { name: "Log out" }).click();
  await theirs.goto("about:blank");
  await theirs.goto(link);
  await theirs.getByLabel("New password").fill(PASSWORD);
  await theirs.getByLabel("The same once more").fill(PASSWORD);
  await theirs.keyboard.press("Enter");
  await theirs.getByText("This invitation was used already").waitFor();
  await page.bringToFront();
  const [other, link2] = await invite("omar", false);
  await theirs.goto("about:blank");
  await theirs.goto(link2);
  await theirs.getByLabel("New password").fill(PASSWORD);
  await theirs.getByLabel("The same once more").fill(PASSWORD);
  await theirs.keyboard.press("Enter");
  await theirs.getByText("The password of omar is set.").waitFor();
  await theirs.getByText("This page is for administrators.").waitFor();
  for (const window of [page, theirs]) await window.context().close();
  for (const id of [admin, other]) await ask("DELETE", `/identities/${id}`);
}

/** What changes something: links to forms, and buttons. */
const CHANGING = () =>
  [
    ...document.querySelectorAll(
      '#content a[href$="/_new"], #content a[href*="/_new?"], #content a[href$="/edit"], #content a[href="#/share"], #content a[href="#/invite"], #content button',
    ),
  ]
    .filter(
      (one) =>
        one.matches("a") ||
        /^(Create|Delete|Edit|Disable|Enable|Issue|Override|Remove|Take a|Prove|Restore|Repair|Check the data|End$|Make this|Give|Add|Invite$|Share|Refresh|Ask to)/.test(
          one.textContent.trim(),
        ),
    )
    .map((one) => one.outerHTML.slice(0, 160));

/** A window with an API token of a scope. Any refused request is a fault. */
async function withToken(browser, ask, scope) {
  const { id, token } = await ask("POST", "/overkeep/v1/api-tokens", {
    name: `token of ${JSON.stringify(scope)}`,
    ...scope,
  });
  const page = await windowOf(browser, 1280, "light");
  await page.goto(`${origin}/`);
  await page.getByText("Log in with an API token").click();
  await page.getByLabel("API token").fill(token);
  await page.getByRole("button", { name: "Use the token" }).click();
  await page.waitForFunction(SETTLED);
  return [
    page,
    async () => {
      await page.context().close();
      await ask("DELETE", `/overkeep/v1/api-tokens/${id}`);
    },
  ];
}

/** Who only reads is offered nothing that changes something, and nothing that is refused. */
export async function readers(browser, ask, ids) {
  for (const [scope, least] of [
    [{ actions: ["read"] }, 15],
    [{ kinds: ["identities", "services", "service-policies"], actions: ["read"] }, 3],
  ]) {
    const [page, done] = await withToken(browser, ask, scope);
    const links = await page
      .locator('#navigation a[href^="#/"]')
      .evaluateAll((all) => all.map((link) => link.getAttribute("href")));
    expect(links.length >= least, `${JSON.stringify(scope)}: ${links}`);
    const records = [
      `#/identities/${ids.alice}`,
      `#/services/${ids.wiki}`,
      `#/service-policies/${ids["hosts serve"]}`,
    ];
    const more = scope.kinds
      ? []
      : [
          "#/access/ask",
          `#/access/ask?identity=${ids.alice}&service=${ids.builds}`,
          "#/access/changes",
          `#/edge-routers/${ids["branch-office"]}`,
          `#/configs/${ids["wiki-address"]}`,
        ];
    for (const hash of [...links, ...records, ...more]) {
      await open(page, hash);
      await check(page, `${hash} with ${JSON.stringify(scope)}`, false);
      const offered = await page.evaluate(CHANGING);
      expect(
        !offered.length,
        `${hash} offers ${offered.slice(0, 3).join(" | ")} to ${JSON.stringify(scope)}`,
      );
    }
    for (const hash of [
      "#/identities/_new",
      `#/identities/${ids.alice}/edit`,
      "#/share",
      "#/invite",
    ]) {
      await open(page, hash);
      expect(
        !(await page.locator("#content form").count()),
        `${hash} shows a form to who only reads`,
      );
    }
    await page.keyboard.press("n");
    expect(
      await page.evaluate(() => !location.hash.endsWith("_new")),
      "the key N creates for who only reads",
    );
    await done();
  }
  // A token that may write is offered what it may write.
  const [page, done] = await withToken(browser, ask, {
    kinds: ["services", "service-role-attributes"],
    actions: ["read", "create"],
  });
  await open(page, "#/services/_new");
  await page.getByLabel("Name").fill("made with a token");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "made with a token" }).waitFor();
  expect(
    !(await page.getByRole("link", { name: "Edit" }).count()) &&
      !(await page.getByRole("button", { name: "Delete" }).count()),
    "what the token may not do is offered",
  );
  await done();
  const [made] = await ask(
    "GET",
    `/services?${new URLSearchParams({ filter: 'name = "made with a token"' })}`,
  );
  await ask("DELETE", `/services/${made.id}`);
}
