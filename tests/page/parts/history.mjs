// The history, who gained and lost access, and links between routers.

import { check, expect, open, signedIn } from "../browser.mjs";

/** The history says who did what and which members differ; its rows are filtered, and older ones are read. */
export async function history(browser, ask, ids) {
  await ask("PATCH", `/identities/${ids.hana}`, { name: "hana before" });
  await ask("PATCH", `/identities/${ids.hana}`, { name: "hana" });
  const page = await signedIn(browser, 1280, "light");
  await open(page, "#/history");
  const tab = (name) =>
    page.getByRole("navigation", { name: "History" }).getByRole("link", { name });
  await tab("Changes").click();
  await page.locator(".rows li").first().waitFor();
  const row = page.locator(".rows li.of-update").filter({ hasText: "hana" }).first();
  await row.waitFor();
  expect(
    /admin/i.test(await row.locator("p a").first().textContent()),
    `the row names who did it: ${await row.locator("p").first().textContent()}`,
  );
  await row.getByText("Details").click();
  const cells = await row
    .locator("tbody tr")
    .filter({ hasText: "Name" })
    .locator("td")
    .allTextContents();
  expect(cells.join() === "hana before,hana", `the differences are ${cells}`);
  await check(page, "the differences of a change", true);
  // The history is longer than a page of it.
  const before = await page.locator(".rows > li").count();
  await page.getByRole("button", { name: "Older" }).click();
  await page.waitForFunction(
    (last) => document.querySelectorAll(".rows > li").length > last,
    before,
  );
  const times = await page
    .locator(".rows > li > time")
    .evaluateAll((all) => all.map((time) => time.dateTime));
  expect(
    times.every((time, index) => !index || time <= times[index - 1]),
    "the rows are in the order of time",
  );
  await page.locator("[data-search]").fill("hana");
  await page.waitForFunction(
    () =>
      [...document.querySelectorAll(".rows > li")].every((row) =>
        row.textContent.includes("hana"),
      ) && location.hash.includes("filter=hana"),
  );
  for (const [name, wanted] of [
    ["Refusals", "of-refusal"],
    ["Log-ins", "of-login"],
    ["Access", "of-access"],
  ]) {
    await open(page, "#/history");
    await tab(name).click();
    await page.locator(`.rows > li.${wanted}`).first().waitFor();
    await page.waitForFunction(
      (allowed) =>
        [...document.querySelectorAll(".rows > li")].every((row) =>
          allowed.some((name) => row.classList.contains(name)),
        ),
      {
        "of-refusal": ["of-refusal", "of-lockout"],
        "of-login": ["of-login", "of-logout"],
        "of-access": ["of-access"],
      }[wanted],
    );
  }
  await page.context().close();
}

/** Who gained and lost access since yesterday. */
export async function accessSince(browser, ask, ids) {
  const page = await signedIn(browser, 1280, "light");
  await open(page, "#/access/changes");
  expect(
    (await page.getByLabel("Who gained and lost access since").inputValue()) === "day",
    "the page begins with yesterday",
  );
  const newest = page.locator(".rows > li").first();
  const { id } = await ask("POST", "/service-policies", {
    name: "support reaches tools",
    type: "Dial",
    semantic: "AnyOf",
    identityRoles: ["#support"],
    serviceRoles: ["#tools"],
  });
  await newest.locator(".gained").filter({ hasText: "lena, marco" }).waitFor();
  await ask("DELETE", `/service-policies/${id}`);
  await newest.locator(".lost").filter({ hasText: "lena, marco" }).waitFor();
  await check(page, "who gained and lost access", true);
  for (const span of ["hours", "week"]) {
    await page.getByLabel("Who gained and lost access since").selectOption(span);
    await page.locator(".rows .lost").filter({ hasText: "lena, marco" }).first().waitFor();
  }
  await page.context().close();
}

/** The table of links, with links as routers report them. */
export async function links(browser) {
  const page = await signedIn(browser, 360, "dark");
  const link = (id, to, more) => ({
    id,
    protocol: "tls",
    sourceRouter: { id: "r1", name: "here", entity: "routers" },
    destRouter: { id: to, name: to, entity: "routers" },
    state: "Connected",
    down: false,
    staticCost: 1,
    sourceLatency: 65e9,
    destLatency: 2500000,
    cost: 5,
    iteration: 1,
    ...more,
  });
  const rows = [link("l1", "there"), link("l2", "elsewhere", { down: true, destLatency: 65e9 })];
  await page.route("**/fabric/v1/links?*", (route) =>
    route.fulfill({
      json: { data: rows, meta: { pagination: { limit: 100, offset: 0, totalCount: 101 } } },
    }),
  );
  await open(page, "#/live");
  await page.getByRole("heading", { name: "Links between routers 101" }).waitFor();
  const cells = await page
    .getByRole("row")
    .filter({ hasText: "there" })
    .first()
    .locator("td")
    .allTextContents();
  expect(
    cells.join("|") === "here|there|tls|2.5 ms|Connected",
    `a link is shown as ${cells.join("|")}`,
  );
  expect(
    (await page.getByRole("row").filter({ hasText: "elsewhere" }).locator("td").allTextContents())
      .slice(-2)
      .join() === "not measured yet,down",
    "a link that is excluded says so",
  );
  await page.getByText("and 99 more").waitFor();
  await check(page, "the links between routers", true);
  await page.context().close();
}
