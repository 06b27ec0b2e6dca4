// Who may reach what: the answers and their edits.

import { check, expect, open, signedIn } from "../browser.mjs";

export * from "./map.mjs";

/** From a refusal with its reasons, by a previewed edit, to a policy that grants the right. */
export async function explain(browser, ask, ids) {
  const page = await signedIn(
    browser,
    1280,
    "light",
    (answer) => answer.status() === 500 && answer.url().includes("preview=true"),
  );
  await open(page, "#/access");
  await page.getByRole("button", { name: "#sales" }).click();
  await page.getByRole("button", { name: "Show members" }).click();
  await page.getByRole("dialog").getByRole("link", { name: "What it may reach" }).first().click();
  await page.getByRole("heading", { name: /^What alice may dial/ }).waitFor();
  await page.getByRole("combobox", { name: "Service" }).fill("builds");
  await page.getByRole("option", { name: "builds" }).click();
  await page.locator(".verdict.refused").waitFor();
  // The seeded identity has a token, whose end is told in the zone of the viewer, with UTC on hover.
  const ends = page.locator(".obstacles time").first();
  expect(
    / UTC$/.test(await ends.getAttribute("title")) && !/Z/.test(await ends.textContent()),
    `a time in an obstacle: ${await ends.textContent()}`,
  );
  await page.getByText("Give the token to a client, and have it enroll.").waitFor();
  await page.getByRole("button", { name: "Show the enrollment token of alice" }).click();
  await page
    .getByRole("dialog")
    .getByRole("img", { name: "QR code with the enrollment token of alice" })
    .waitFor();
  await check(page, "the token of an obstacle", true);
  await page.keyboard.press("Escape");
  // The change cannot be made before its preview is there.
  let release;
  const held = new Promise((done) => {
    release = done;
  });
  await page.route(/preview=true/, (route) => route.fulfill({ status: 500, json: {} }), {
    times: 1,
  });
  await page.getByRole("button", { name: "Add a policy that lets alice dial builds" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Try again" }).waitFor();
  expect(
    await page.getByRole("button", { name: "Make this change" }).isDisabled(),
    "a change whose preview failed cannot be made",
  );
  await page.getByRole("dialog").getByRole("button", { name: "Try again" }).click();
  await page.getByRole("dialog").locator(".gained").filter({ hasText: "alice" }).waitFor();
  // Meanwhile the controller proposes something else: the policy that it would add needs another name.
  const { id: taken } = await ask("POST", "/service-policies", {
    name: "alice-dial-builds",
    type: "Dial",
    semantic: "AnyOf",
    identityRoles: [],
    serviceRoles: [],
  });
  await page.getByRole("button", { name: "Make this change" }).click();
  await page.getByText("Something changed meanwhile, so nothing was done.").waitFor();
  await check(page, "a change that is outdated", true);
  await ask("DELETE", `/service-policies/${taken}`);
  await page.keyboard.press("Escape");
  await page.route(/preview=true/, (route) => held.then(() => route.continue()));
  await page.getByRole("button", { name: "Add a policy that lets alice dial builds" }).click();
  expect(
    await page.getByRole("button", { name: "Make this change" }).isDisabled(),
    "a change waits for its preview",
  );
  release();
  await page.getByRole("dialog").locator(".gained").filter({ hasText: "alice" }).waitFor();
  expect(
    !(await ask("GET", `/identities/${ids.alice}/services?limit=100`)).some(
      (service) => service.name === "builds",
    ),
    "a preview changes nothing",
  );
  await page.getByRole("button", { name: "Make this change" }).click();
  await page.getByRole("link", { name: "alice-dial-builds" }).waitFor();
  await page.getByText("Changed. The answer was updated.").waitFor();
  await page
    .waitForFunction(() => document.activeElement.matches(".verdict h2"), null, { timeout: 5000 })
    .catch(() => expect(false, "after a change the focus is not on the verdict"));
  expect(
    (await ask("GET", `/identities/${ids.alice}/services?limit=100`)).some(
      (service) => service.name === "builds",
    ),
    "the edit gives the right",
  );
  // An identity without a token: the edit issues one, says what that means, and shows it. Its name keeps its letters.
  const { id } = await ask("POST", "/identities", {
    name: "Nadia-PC",
    type: "Default",
    isAdmin: false,
  });
  await open(page, `#/access/ask?identity=${id}&service=${ids.builds}`);
  await page
    .getByRole("button", { name: "Give Nadia-PC an enrollment token, and have it enroll" })
    .click();
  const dialog = page.getByRole("dialog", {
    name: "Give Nadia-PC an enrollment token, and have it enroll",
  });
  await dialog.getByText("A client that enrolls with it").waitFor();
  await dialog.getByText("Nobody gains or loses access.").waitFor();
  expect(
    !(await ask("GET", `/enrollments?${new URLSearchParams({ filter: `identity = "${id}"` })}`))
      .length,
    "a preview issues nothing",
  );
  await page.getByRole("button", { name: "Make this change" }).click();
  await page
    .getByRole("dialog")
    .getByRole("img", { name: "QR code with the enrollment token of Nadia-PC" })
    .waitFor();
  await page.getByRole("dialog").getByText("Waiting for the client", { exact: true }).waitFor();
  await page.keyboard.press("Escape");
  // An edit has all roles that the identity is to have. One from before a change of the roles is not made.
  const give = page.getByRole("button", { name: /^Give Nadia-PC the role/ }).first();
  const make = page.getByRole("button", { name: "Make this change" });
  const shown = () =>
    page.getByRole("dialog").locator(".preview .tallies, .preview .quiet").waitFor();
  await give.click();
  await shown();
  await ask("PATCH", `/identities/${id}`, { roleAttributes: ["newly-added"] });
  await make.click();
  await page.getByText("Something changed meanwhile, so nothing was done.").waitFor();
  expect(
    (await ask("GET", `/identities/${id}`)).roleAttributes.join() === "newly-added",
    "an outdated edit changes nothing",
  );
  await Promise.all([page.waitForResponse(/\/explain\?/), page.keyboard.press("Escape")]);
  await give.click();
  await shown();
  await make.click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  const { roleAttributes } = await ask("GET", `/identities/${id}`);
  expect(
    roleAttributes.includes("newly-added") && roleAttributes.length > 1,
    `after an edit the roles are ${roleAttributes}`,
  );
  // A dialog about one pair does not stay over another.
  await open(page, `#/access/ask?identity=${id}&service=${ids.artifacts}`);
  await page.getByRole("button", { name: "Show the enrollment token of Nadia-PC" }).click();
  await page.getByRole("dialog").waitFor();
  await page.evaluate(
    (other) => {
      location.hash = `#/access/ask?identity=${other[0]}&service=${other[1]}`;
    },
    [id, ids.database],
  );
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.context().close();
  await ask("DELETE", `/identities/${id}`);
}
