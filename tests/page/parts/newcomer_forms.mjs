// What somebody new meets in forms: something to create where there is nothing to choose from, required members first, examples.

import { SETTLED, check, everyPage, expect, open, signedIn, windowOf } from "../browser.mjs";
import { emptyController } from "../controller.mjs";

const INTERCEPT =
  '{"protocols": ["tcp"], "addresses": ["wiki.internal"], "portRanges": [{"low": 443, "high": 443}]}';

/** Fields that have nothing to choose from on a new network, by the kind of the form, and what they offer. */
const EMPTY = [
  ["services", "Configs", "Create config"],
  ["service-policies", "Service roles", "Create service"],
  ["service-policies", "Posture check roles", "Create posture check"],
  ["terminators", "Service", "Create service"],
  ["auth-policies", "Allowed signers", "Create external JWT signer"],
  ["enrollments", "Certificate authority", "Create certificate authority"],
];

/** Logs in the administrator of a new controller. */
async function logInAtNew(page, { url, password }) {
  await page.goto(`${url}/`);
  await page.locator("#username").fill("admin");
  await page.locator("#password").fill(password);
  await page.keyboard.press("Enter");
  await page.waitForFunction(SETTLED);
}

/** A field that has nothing to choose from offers to create it, without leaving the form. */
export async function nothingToChoose(browser) {
  const controller = await emptyController();
  const page = await windowOf(browser, 1280, "light", undefined, {}, [controller.url]);
  const field = (name) => page.getByRole("combobox", { name, exact: true });
  const unfold = () =>
    page.evaluate(() => {
      for (const fold of document.querySelectorAll("#content details.fold")) fold.open = true;
    });
  try {
    await logInAtNew(page, controller);
    for (const [kind, label, offer] of EMPTY) {
      await open(page, `#/${kind}/_new`);
      await unfold();
      await field(label).first().focus();
      await page.keyboard.press("ArrowDown");
      await page
        .getByRole("button", { name: offer, exact: true })
        .waitFor({ timeout: 5000 })
        .catch(() => expect(false, `${label} of ${kind} is empty and does not offer ${offer}`));
    }
    // From a service to its config and back.
    await open(page, "#/services/_new");
    await page.getByLabel("Name").fill("wiki");
    await field("Configs").fill("wiki-address");
    await page.getByText("No match.").waitFor();
    await page.getByRole("button", { name: "Create config" }).click();
    const dialog = page.getByRole("dialog", { name: "Create config" });
    expect(
      (await dialog.getByLabel("Name").inputValue()) === "wiki-address",
      "the text that matched nothing is the name of the new record",
    );
    await dialog.getByRole("combobox", { name: "Config type" }).fill("intercept");
    await page.getByRole("option", { name: "intercept.v1", exact: true }).click();
    await dialog.getByRole("button", { name: "Edit as JSON" }).click();
    await dialog.getByLabel("Data").fill(INTERCEPT);
    await check(page, "a record that is made for a form", true);
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByText("wiki-address", { exact: true }).waitFor();
    expect((await page.getByLabel("Name").inputValue()) === "wiki", "the form is as it was");
    // A dialog that is left does not take the form with it, and the form is still not left without a question.
    await field("Configs").fill("another");
    await page.getByRole("button", { name: "Create config" }).click();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.waitFor({ state: "detached" });
    const asked = new Promise((done) =>
      page.once("dialog", (question) => question.dismiss().then(() => done(true))),
    );
    await page.evaluate(() => {
      location.hash = "#/overview";
    });
    expect(
      await Promise.race([asked, page.waitForTimeout(2000)]),
      "a form with changes asks before it is left, after a dialog over it, too",
    );
    await field("Configs").fill("");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "wiki" }).waitFor();
    await page.locator(".members").getByRole("link", { name: "wiki-address" }).waitFor();
    // What the service lacks is offered, until it is there.
    for (const [lack, type] of [
      ["No policy lets anybody use it.", "Dial"],
      ["No policy lets anybody host it.", "Bind"],
    ]) {
      await page.getByText(lack).getByRole("link").click();
      await page.getByRole("heading", { level: 1, name: "Create service policy" }).waitFor();
      await page.getByLabel("Name").fill(`wiki ${type}`);
      expect(
        (await page.getByLabel("Type").inputValue()) === type,
        `the policy that is offered has the type ${type}`,
      );
      await field("Identity roles").fill("#all");
      await page.keyboard.press("Enter");
      await page.getByRole("button", { name: "Create", exact: true }).click();
      await page.getByRole("heading", { level: 1, name: `wiki ${type}` }).waitFor();
      await page.locator(".members").getByRole("link", { name: "wiki", exact: true }).click();
      await page.getByRole("heading", { level: 1, name: "wiki", exact: true }).waitFor();
      await page.getByText(lack).waitFor({ state: "detached" });
    }
  } finally {
    await page.context().close();
    await controller.stop();
  }
}

/** The labels of the fields of the form, whether each is required, and the controls without an example. Switches, times and choices have a value or show what there is. */
const FORM = () => {
  for (const fold of document.querySelectorAll("#content details")) fold.open = true;
  const form = document.querySelector("form.editor .fields");
  const own = [...form.querySelectorAll(":scope > .field, :scope > .fold > .field")];
  const order = own
    .filter((field) => !field.matches(".switch, fieldset"))
    .map((field) => [
      field.querySelector("label")?.textContent,
      Boolean(field.querySelector(":scope > label .required")),
    ]);
  const controls = [...form.querySelectorAll("input, textarea")].filter(
    (control) =>
      !["checkbox", "datetime-local"].includes(control.type) &&
      !control.disabled &&
      !control.closest(".box")?.querySelector(".chip"),
  );
  const first = [...form.querySelectorAll("input, select, textarea")].find(
    (control) => !control.disabled,
  );
  return {
    order,
    bare: controls
      .filter((control) => !control.placeholder.trim())
      .map((control) => control.getAttribute("aria-label") || control.id),
    isFirst: document.activeElement === first,
    now: document.activeElement.outerHTML.slice(0, 120),
  };
};

async function formsOf(page, pages) {
  for (const hash of pages) {
    await open(page, "#/history");
    await open(page, hash);
    await page.locator("form.editor .fields").first().waitFor();
    const isFocused = await page
      .waitForFunction(
        () =>
          document.activeElement.matches(
            "form.editor input, form.editor select, form.editor textarea",
          ),
        null,
        { timeout: 3000 },
      )
      .then(
        () => true,
        () => false,
      );
    const { order, bare, isFirst, now } = await page.evaluate(FORM);
    expect(isFocused && isFirst, `${hash}: the focus is not in the first field but on ${now}`);
    const late = order.findIndex(
      ([, required], index) => required && order.slice(0, index).some(([, earlier]) => !earlier),
    );
    expect(
      late < 0,
      `${hash}: the required field ${order[late]?.[0]} comes after one that is not: ${order.map(([label]) => label).join(", ")}`,
    );
    expect(!bare.length, `${hash}: no example in ${bare.join(", ")}`);
  }
}

/** In every form required members come first, every field has an example, and the first field has the focus. */
export async function formsForNewcomers(browser, ask, ids) {
  // What cannot be deleted, or has nothing to remove, says so in its preview.
  const page = await signedIn(
    browser,
    1280,
    "light",
    (answer) => [400, 404, 409].includes(answer.status()) && answer.url().endsWith("?preview=true"),
  );
  page.on("dialog", (question) => question.accept()); // what is filled in is left
  const pages = await everyPage(page, ask, ids);
  const forms = pages.filter((hash) => /\/(_new|edit)$/.test(hash));
  expect(forms.length > 15, `${forms.length} forms`);
  await formsOf(page, forms);
  // The data of configs, by their types, and the variants of a posture check.
  await formsOf(
    page,
    (await ask("GET", "/config-types?limit=100")).map(
      ({ id }) => `#/configs/_new?configTypeId=${encodeURIComponent(id)}`,
    ),
  );
  await open(page, "#/posture-checks/_new");
  for (const type of ["OS", "DOMAIN", "MAC", "PROCESS", "PROCESS_MULTI", "MFA"]) {
    await page.locator("#tag-").selectOption(type);
    for (const add of await page.getByRole("button", { name: "Add one" }).all()) await add.click();
    const { bare } = await page.evaluate(FORM);
    expect(!bare.length, `a posture check of type ${type}: no example in ${bare.join(", ")}`);
  }
  // The fields of a page that asks something, and of dialogs.
  for (const hash of pages.filter(
    (hash) => /^#\/[a-z-]+\/[^/_?]+$/.test(hash) && !hash.startsWith("#/access"),
  )) {
    await open(page, hash);
    for (const button of await page.locator(".heading .actions button").all()) {
      await button.click();
      await page.getByRole("dialog").waitFor();
      const bare = await page.evaluate(() =>
        [...document.querySelectorAll("dialog input, dialog textarea")]
          .filter(
            (control) =>
              !["checkbox", "datetime-local"].includes(control.type) && !control.placeholder.trim(),
          )
          .map((control) => control.id || control.outerHTML.slice(0, 80)),
      );
      expect(
        !bare.length,
        `${hash}, ${await page.getByRole("dialog").getByRole("heading").first().textContent()}: no example in ${bare.join(", ")}`,
      );
      await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
      await page.getByRole("dialog").waitFor({ state: "detached" });
    }
  }
  await open(page, "#/access/ask");
  await page
    .waitForFunction(() => document.activeElement.matches(".asks input"), null, { timeout: 3000 })
    .catch(() => expect(false, "the first field of a question has no focus"));
  for (const task of ["#/share", "#/invite"]) {
    await open(page, task);
    await page
      .waitForFunction(
        () => document.activeElement === document.querySelector("form.editor input"),
        null,
        { timeout: 3000 },
      )
      .catch(() => expect(false, `the first field of ${task} has no focus`));
  }
  await open(page, `#/identities/${ids.farah}`);
  await page.getByRole("button", { name: "Disable" }).click();
  await page
    .waitForFunction(() => document.activeElement.matches("dialog input"), null, { timeout: 3000 })
    .catch(() => expect(false, "the first field of a dialog has no focus"));
  await page.context().close();
}
