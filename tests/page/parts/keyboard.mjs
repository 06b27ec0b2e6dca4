// Use with the keyboard alone.

import {
  SETTLED,
  check,
  everyPage,
  expect,
  logIn,
  open,
  origin,
  password,
  signedIn,
  user,
  windowOf,
} from "../browser.mjs";
import { administrator } from "../seed.mjs";

/** Keyboard only: log in, go to a kind, create a record with a preview, delete it. */
export async function keyboard(browser, ask) {
  const page = await windowOf(
    browser,
    1280,
    "light",
    (answer) => answer.status() === 401 && answer.url().includes("/authenticate?"),
  );
  await logIn(page, user, "not the password");
  await page.locator(".problem").waitFor();
  await logIn(page);
  await page.waitForFunction(SETTLED);
  const kept = await page.evaluate(() => [
    Object.values({ ...localStorage }).join(),
    sessionStorage.length,
    document.cookie,
  ]);
  expect(
    !kept[0].includes("token") && kept[1] === 1 && kept[2] === "",
    "the token is kept in sessionStorage and nowhere else",
  );
  await page.keyboard.press("Control+k");
  await page.keyboard.type("service polic");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Service policies" }).waitFor();
  await page.waitForFunction(SETTLED);
  await page.keyboard.press("n");
  await page.getByRole("heading", { level: 1, name: "Create service policy" }).waitFor();
  await page.getByLabel("Name").focus();
  await page.keyboard.type("support reaches databases");
  for (const [label, role] of [
    ["Identity roles", "#support"],
    ["Service roles", "#databases"],
  ]) {
    await page.getByRole("combobox", { name: label }).focus();
    await page.keyboard.type(role.slice(0, 4));
    await page.getByRole("option", { name: role }).waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: `Remove ${role}` }).waitFor();
  }
  await page.locator(".preview .gained").filter({ hasText: "lena, marco" }).waitFor();
  await page.getByRole("button", { name: "Create", exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "support reaches databases" }).waitFor();
  const [made] = await ask(
    "GET",
    `/service-policies?filter=${encodeURIComponent('name = "support reaches databases"')}`,
  );
  expect(
    made?.identityRoles.join() === "#support" && made.serviceRoles.join() === "#databases",
    "what was typed is stored",
  );
  await page.getByRole("button", { name: "Delete" }).focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.locator(".lost").waitFor();
  await dialog.getByRole("button", { name: "Delete" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Service policies" }).waitFor();
  expect(
    !(
      await ask(
        "GET",
        `/service-policies?filter=${encodeURIComponent('name = "support reaches databases"')}`,
      )
    ).length,
    "what was deleted is gone",
  );
  await page.context().close();
}

/** Notes in the window what the focus reaches, and where nobody can see it. */
const WATCH = () => {
  window.reached = new Set();
  window.unseen = [];
  const isOutlined = (element) =>
    element &&
    getComputedStyle(element).outlineStyle !== "none" &&
    parseFloat(getComputedStyle(element).outlineWidth) > 0;
  addEventListener("focusin", ({ target }) => {
    reached.add(target);
    // The outline of a field with chips is around the whole.
    if (!isOutlined(target) && !isOutlined(target.closest(".box")))
      unseen.push(target.outerHTML.slice(0, 200));
  });
};

/** The controls in a part of the page that the focus has not reached. */
const MISSED = (within) => {
  const controls = document
    .querySelector(within)
    .querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]');
  return [...controls]
    .filter(
      (control) =>
        !control.disabled &&
        control.checkVisibility({ visibilityProperty: true }) &&
        !reached.has(control),
    )
    .map((control) => control.outerHTML.slice(0, 200));
};

/** What can be used with the pointer is reached with the Tab key, and the focus can be seen. */
async function tabThrough(page, what, within, most) {
  let missed;
  for (let presses = 0; presses < most; presses += 20) {
    // Sent one after the other, without waiting for each.
    await Promise.all(Array.from({ length: 20 }, () => page.keyboard.press("Tab")));
    missed = await page.evaluate(MISSED, within);
    if (!missed.length) break;
  }
  expect(!missed.length, `${what}: Tab does not reach ${missed.slice(0, 3).join(" | ")}`);
  const unseen = await page.evaluate(() => unseen.splice(0));
  expect(!unseen.length, `${what}: the focus cannot be seen on ${unseen.slice(0, 3).join(" | ")}`);
}

/** Tab reaches every control of every page. */
export async function controls(browser, ask, ids) {
  const page = await signedIn(browser, 1280, "light");
  const pages = await everyPage(page, ask, ids);
  await page.evaluate(WATCH);
  await tabThrough(page, "the navigation", ".shell", 200);
  for (const hash of pages) {
    await open(page, hash);
    const count = await page.evaluate(() => {
      const main = document.querySelector("#content");
      for (const fold of main.querySelectorAll("details")) fold.open = true;
      main.focus();
      unseen.length = 0;
      return main.querySelectorAll("a, button, input, select, textarea, summary, [tabindex]")
        .length;
    });
    await tabThrough(page, hash, "#content", 3 * count + 60);
  }
  await page.context().close();
  const narrow = await signedIn(browser, 360, "dark");
  const menu = narrow.getByRole("button", { name: "Menu" });
  await menu.focus();
  await narrow.keyboard.press("Enter");
  await narrow.evaluate(WATCH);
  await tabThrough(narrow, "the menu of a narrow window", "#navigation", 200);
  await narrow.keyboard.press("Escape");
  await narrow.locator("#navigation.open").waitFor({ state: "detached" });
  expect(await menu.evaluate(isFocused), "Escape closes the menu and gives the focus back");
  await narrow.context().close();
}

const isFocused = (element) => element === document.activeElement;

/** The dialogs that axe has checked, by their titles without the name of a record. */
const checked = new Set();

/** A dialog keeps the focus inside, Escape closes it, and the focus goes back to where it was. */
async function tryDialog(page, opener, what) {
  await opener.focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  const sort = what.replace(/^#.*?, /, "");
  await page.waitForFunction(
    () => !document.querySelector("dialog [aria-busy=true], dialog .loading"),
  );
  await check(page, what, !checked.has(sort));
  checked.add(sort);
  for (let press = 0; press < 12; press++) {
    await page.keyboard.press("Tab");
    // Between the last and the first control the browser itself has the focus.
    const outside = await page.evaluate(
      () =>
        document.activeElement !== document.body &&
        !document.activeElement.closest("dialog") &&
        document.activeElement.outerHTML.slice(0, 200),
    );
    expect(!outside, `${what}: the focus leaves the dialog for ${outside}`);
  }
  await dialog.getByRole("button", { name: "Close" }).first().focus();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  expect(
    await opener.evaluate(isFocused),
    `${what}: the focus does not go back to what opened the dialog`,
  );
}

/** The dialogs of all pages. */
export async function dialogs(browser, ask, ids) {
  // What cannot be deleted, or has nothing to remove, says so in its preview.
  const page = await signedIn(
    browser,
    1280,
    "light",
    (answer) => [400, 404, 409].includes(answer.status()) && answer.url().endsWith("?preview=true"),
  );
  await tryDialog(page, page.locator(".find"), "the search for a page");
  await page.keyboard.press("Control+k");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.type("live");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await open(page, "#/access/map");
  await page.getByRole("button", { name: "#sales" }).click();
  await tryDialog(page, page.getByRole("button", { name: "Show members" }), "a group");
  await open(page, `#/access/ask?identity=${ids.bruno}&service=${ids.builds}`);
  await tryDialog(page, page.locator(".edits button").first(), "an edit");
  await administrator(origin, user, password);
  await open(page, "#/care");
  await tryDialog(
    page,
    page.getByRole("button", { name: "End the session of" }).first(),
    "a session to end",
  );
  let count = 0;
  for (const hash of (await everyPage(page, ask, ids)).filter(
    (hash) => /^#\/[a-z-]+\/[^/_?]+$/.test(hash) && !hash.startsWith("#/access"),
  )) {
    await open(page, hash);
    const buttons = page.locator(".heading .actions button");
    for (let index = 0; index < (await buttons.count()); index++)
      await tryDialog(
        page,
        buttons.nth(index),
        `${hash}, ${await buttons.nth(index).textContent()}`,
      );
    count += await buttons.count();
  }
  expect(count > 10, `${count} dialogs of records`);
  // Escape closes the choices of a field, and not the dialog around it.
  await open(page, `#/identities/${ids.alice}`);
  await page.getByRole("button", { name: "Override configs" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Add one" }).click();
  await dialog.getByRole("combobox", { name: "Service", exact: true }).focus();
  await dialog.getByRole("listbox").first().waitFor();
  await page.keyboard.press("Escape");
  await dialog.getByRole("listbox").first().waitFor({ state: "hidden" });
  expect(await dialog.isVisible(), "Escape closes the choices first");
  page.once("dialog", (question) => question.accept()); // what was typed would be lost
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page.context().close();
}
