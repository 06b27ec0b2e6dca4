// Forms and actions: refusals, previews, deletions.

import { check, expect, open, signedIn, typeIn } from "../browser.mjs";

export * from "./lists.mjs";
export * from "./new_kind.mjs";

/** An error is shown at the member that it names, and a concurrent change is not overwritten. */
export async function refusals(browser, ask, ids) {
  const page = await signedIn(browser, 1280, "light", (answer) =>
    [400, 412].includes(answer.status()),
  );
  await open(page, `#/configs/${ids["wiki-address"]}/edit`);
  await page.getByRole("button", { name: "Edit as JSON" }).click();
  await page
    .getByLabel("Data")
    .fill(
      '{"protocols": ["carrier pigeon"], "addresses": ["a.internal"], "portRanges": [{"low": 1, "high": 2}]}',
    );
  await page
    .locator(".field .error")
    .filter({ hasText: /pigeon|one of|enum|protocols/i })
    .waitFor();
  // What is no JSON cannot be saved: the last text that was JSON is not sent in its place.
  const valid = await page.getByLabel("Data").inputValue();
  await page.getByLabel("Data").fill('{"protocols": [');
  await page.getByText("Correct the invalid JSON first.").waitFor();
  expect(
    await page.getByRole("button", { name: "Save" }).isDisabled(),
    "invalid JSON cannot be saved",
  );
  await page.getByLabel("Data").fill(valid);
  await page.getByText("Correct the invalid JSON first.").waitFor({ state: "detached" });
  expect(
    await page.getByRole("button", { name: "Save" }).isEnabled(),
    "corrected JSON can be saved",
  );
  // A form with changes is left only if the person agrees.
  let answer = "dismiss";
  page.on("dialog", (dialog) => dialog[answer]());
  await page.evaluate(() => {
    location.hash = "#/overview";
  });
  await page.waitForFunction(() => location.hash.endsWith("/edit"));
  expect(
    await page
      .getByLabel("Data")
      .inputValue()
      .then((text) => text.includes("pigeon")),
    "a form that is not left keeps what was typed",
  );
  answer = "accept";
  await open(page, `#/identities/${ids.bruno}/edit`);
  await page.getByLabel("Name").fill("bruno the second");
  await ask("PATCH", `/identities/${ids.bruno}`, { name: "bruno the first" });
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Somebody else changed this meanwhile").waitFor();
  expect(
    (await ask("GET", `/identities/${ids.bruno}`)).name === "bruno the first",
    "the newer name stays",
  );
  await page.context().close();
}

/** What nothing can match is told beside the button before it is saved. */
export async function unmatchable(browser, ask) {
  const demand = (hash) => ({
    typeId: "PROCESS",
    process: { osType: "Linux", path: "/bin/guard", hashes: [hash] },
  });
  const { id } = await ask("POST", "/posture-checks", { name: "guard runs", ...demand("ab") });
  const page = await signedIn(browser, 1280, "light");
  const told = page.locator(".preview .warning");
  const edit = async (name) => {
    await open(page, `#/posture-checks/${id}/edit`);
    await page.getByLabel("Name").fill(name);
    await page.locator(".preview").getByText("Nobody gains or loses access.").waitFor();
  };
  await edit("a guard runs");
  await told.filter({ hasText: "process.hashes" }).waitFor();
  await check(page, "a check that nothing matches", true);
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { level: 1, name: "a guard runs" }).waitFor();
  await ask("PATCH", `/posture-checks/${id}`, demand("ab".repeat(64)));
  await edit("the guard runs");
  expect(!(await told.count()), "what can be matched has a warning");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { level: 1, name: "the guard runs" }).waitFor();
  await page.context().close();
  await ask("DELETE", `/posture-checks/${id}`);
}

/** A service is encrypted unless somebody turns that off. What only creation sets cannot be changed in a form. */
export async function encryption(browser, ask, ids) {
  const page = await signedIn(browser, 1280, "light");
  for (const isKept of [true, false]) {
    const name = `encrypted ${isKept}`;
    await open(page, "#/services/_new");
    await page.getByLabel("Name").fill(name);
    const control = page.getByRole("switch", { name: /encryption/i });
    expect(await control.isChecked(), "the form of a new service has encryption on");
    if (!isKept) await control.uncheck();
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    const [{ encryptionRequired }] = await ask(
      "GET",
      `/services?filter=${encodeURIComponent(`name = "${name}"`)}`,
    );
    expect(
      encryptionRequired === isKept,
      `the service ${name} has encryptionRequired ${encryptionRequired}`,
    );
  }
  const { id: terminator } = await ask("POST", "/terminators", {
    service: ids.wiki,
    router: ids["branch-office"],
    address: "tcp:127.0.0.1:9",
    binding: "transport",
    identity: "first",
  });
  for (const [address, label] of [
    [`services/${ids.wiki}`, /encryption/i],
    [`configs/${ids["wiki-address"]}`, /^Config type/],
    [`terminators/${terminator}`, /^Identity$/],
  ]) {
    await open(page, `#/${address}/edit`);
    if (!(await page.getByLabel(label).first().isVisible()))
      await page.getByText("More settings").click();
    expect(
      await page.getByLabel(label).first().isDisabled(),
      `${label} of ${address} can be changed in the form`,
    );
  }
  await ask("DELETE", `/terminators/${terminator}`);
  await page.context().close();
}

/** An action shows who gains and who loses access before it is done. */
export async function previewedAction(browser, ask, ids) {
  const page = await signedIn(
    browser,
    1280,
    "light",
    (answer) =>
      answer.status() === 401 || (answer.status() === 400 && answer.url().includes("preview=true")),
  );
  await open(page, `#/identities/${ids.dalia}`);
  expect(
    !(await page.getByRole("button", { name: "Enable", exact: true }).count()),
    "what is enabled cannot be enabled",
  );
  await page.getByRole("button", { name: "Disable" }).click();
  const dialog = page.getByRole("dialog");
  // After a value that is refused, the corrected one waits for its own preview.
  await dialog.getByRole("spinbutton").fill("1.5");
  await dialog.getByText("Not complete yet").waitFor();
  expect(
    await dialog.getByRole("button", { name: "Disable" }).isDisabled(),
    "what is refused cannot be done",
  );
  await dialog.getByRole("spinbutton").fill("-5");
  await dialog.locator(".field.wrong .error").getByText("must be 0 or more").waitFor();
  expect(
    await dialog.getByRole("button", { name: "Disable" }).isDisabled(),
    "a negative number of minutes cannot be sent",
  );
  let release;
  const held = new Promise((done) => {
    release = done;
  });
  await page.route(/preview=true/, (route) => held.then(() => route.continue()));
  await dialog.getByRole("spinbutton").fill("0");
  await page.waitForTimeout(500);
  expect(
    await dialog.getByRole("button", { name: "Disable" }).isDisabled(),
    "a corrected value waits for its preview",
  );
  release();
  await dialog.locator(".preview .lost").filter({ hasText: "dalia" }).first().waitFor();
  await check(page, "an action with a preview", true);
  // What was typed is kept while the person logs in again, and is not lost by Esc without a question.
  await ask(
    "DELETE",
    `/api-sessions/${await page.evaluate(() => JSON.parse(sessionStorage.getItem("overkeep-session")).id)}`,
  );
  await page.getByText("What you had open is kept").waitFor();
  const [token] = Object.values((await ask("GET", `/identities/${ids.dalia}`)).enrollment);
  expect(
    token.jwt && !(await page.content()).includes(token.jwt),
    "the token of the record is not in the document without a session",
  );
  await typeIn(page);
  await dialog.getByRole("spinbutton").waitFor();
  expect(
    (await dialog.getByRole("spinbutton").inputValue()) === "0",
    "a log-in keeps what was typed in the dialog of an action",
  );
  await dialog.getByRole("spinbutton").focus();
  const asked = new Promise((done) =>
    page.once("dialog", (question) => question.dismiss().then(done)),
  );
  await page.keyboard.press("Escape");
  await asked;
  await dialog.locator(".preview .lost").filter({ hasText: "dalia" }).first().waitFor();
  expect(!(await ask("GET", `/identities/${ids.dalia}`)).disabled, "a preview changes nothing");
  expect(
    (await sentTwice(page, "POST", dialog.getByRole("button", { name: "Disable" }))) === 1,
    "a double click disables twice",
  );
  expect((await ask("GET", `/identities/${ids.dalia}`)).disabled, "the action is done");
  // Only the action that changes something is offered.
  await page.getByRole("button", { name: "Enable", exact: true }).waitFor();
  expect(
    !(await page.getByRole("button", { name: "Disable", exact: true }).count()),
    "what is disabled cannot be disabled",
  );
  await page.context().close();
}

/** How many requests two clicks on a button of a dialog send: the button is disabled until the answer, which waits for the second click. */
async function sentTwice(page, method, button) {
  let [count, release] = [0, null];
  const held = new Promise((done) => {
    release = done;
  });
  const isIts = (url) => !url.search.includes("preview=true") && url.pathname.startsWith("/edge/");
  await page.route(isIts, async (route) => {
    if (route.request().method() !== method) return route.continue();
    count++;
    await held;
    return route.continue().catch(() => null);
  });
  await button.evaluate((element) => {
    element.click();
    element.click();
  });
  expect(
    await button.isDisabled(),
    `${await button.textContent()} is not disabled while its request is sent`,
  );
  await button.evaluate((element) => element.click());
  release();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.unrouteAll({ behavior: "wait" });
  return count;
}

/** A deletion is sent once, and leads to the list. */
export async function deletion(browser, ask) {
  const made = () => ask("POST", "/services", { name: "to be deleted", encryptionRequired: true });
  const { id } = await made();
  const page = await signedIn(browser, 1280, "light");
  const dialog = page.getByRole("dialog");
  await open(page, `#/services/${id}`);
  await page.getByRole("button", { name: "Delete" }).click();
  await dialog.locator(".preview .tallies, .preview .quiet").waitFor();
  expect(
    (await sentTwice(page, "DELETE", dialog.getByRole("button", { name: "Delete" }))) === 1,
    "a double click deletes twice",
  );
  await page.waitForFunction(() => location.hash === "#/services");
  // The news of a deletion may come long before its answer: the page does not ask for what is gone.
  const late = await made();
  await open(page, `#/services/${late.id}`);
  await page.route(`**/services/${late.id}`, async (route) => {
    if (route.request().method() !== "DELETE") return route.continue();
    const answer = await route.fetch();
    await new Promise((done) => setTimeout(done, 2000));
    return route.fulfill({ response: answer });
  });
  await page.getByRole("button", { name: "Delete" }).click();
  await dialog.locator(".preview .tallies, .preview .quiet").waitFor();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.waitForFunction(() => location.hash === "#/services");
  await page.context().close();
}

/** An action whose body is a list. */
export async function actions(browser, ask, ids) {
  const page = await signedIn(browser, 1280, "light");
  await open(page, `#/identities/${ids.chen}`);
  await page.getByRole("button", { name: "Override configs" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Add one" }).click();
  for (const [label, name] of [
    ["Service", "wiki"],
    ["Config", "wiki-address"],
  ]) {
    await dialog.getByRole("combobox", { name: label, exact: true }).fill(name);
    await page.getByRole("option", { name, exact: true }).click();
  }
  await check(page, "an action with a list", true);
  await dialog.getByRole("button", { name: "Override configs" }).click();
  await dialog.waitFor({ state: "detached" });
  const overrides = await ask("GET", `/identities/${ids.chen}/service-configs`);
  expect(
    overrides.length === 1 && JSON.stringify(overrides).includes(ids["wiki-address"]),
    `the list of the form is stored: ${JSON.stringify(overrides)}`,
  );
  await page.context().close();
}
