// Lists and forms: search, filters, sort, pages, and edits of several kinds.

import { check, expect, open, signedIn } from "../browser.mjs";

/** A list is searched by name and by filter, with help and completion, sorted, and paged. */
export async function listSearch(browser, ask) {
  const names = Array.from({ length: 27 }, (_, index) => `paged ${String(index).padStart(2, "0")}`);
  const made = await Promise.all(
    names.map((name) => ask("POST", "/services", { name, encryptionRequired: true })),
  );
  const page = await signedIn(browser, 1280, "light", (answer) => answer.status() === 400);
  await open(page, "#/services");
  const search = page.locator("[data-search]");
  const first = page.locator("tbody tr").first().locator("a.row");
  await search.fill("PAGED");
  await page.getByText("27 services").waitFor();
  // Pages.
  await page.getByText("1–25 of 27").waitFor();
  expect(
    (await page.locator("tbody tr").count()) === 25 &&
      (await page.getByRole("button", { name: "Previous" }).isDisabled()),
    "the first page has 25 rows",
  );
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText("26–27 of 27").waitFor();
  expect(
    (await first.textContent()) === "paged 25" &&
      (await page.getByRole("button", { name: "Next" }).isDisabled()),
    "the second page goes on where the first ends",
  );
  // The address has the search and the page.
  await page.reload();
  await page.getByText("26–27 of 27").waitFor();
  expect((await search.inputValue()) === "PAGED", "a reload keeps the search");
  await page.getByRole("button", { name: "Previous" }).click();
  await page.getByText("1–25 of 27").waitFor();
  // Sort.
  const header = page.getByRole("columnheader", { name: "Name" });
  for (const [order, name] of [
    ["ascending", "paged 00"],
    ["descending", "paged 26"],
  ]) {
    await header.getByRole("button").click();
    await page.waitForFunction(
      ([wanted, text]) =>
        document.querySelector("th[aria-sort] button")?.closest("th").getAttribute("aria-sort") ===
          wanted && document.querySelector("tbody a.row")?.textContent === text,
      [order, name],
    );
  }
  // Filters, their completion and their help.
  await search.fill('name = "paged 07" or na');
  const offered = await page
    .locator("datalist option")
    .evaluateAll((all) => all.map((option) => option.value));
  expect(offered.includes('name = "paged 07" or name'), `the completion offers ${offered}`);
  await search.fill('name = "paged 07" or name = "paged 09"');
  await page.getByText("2 services").waitFor();
  await search.fill("name = ");
  await page.locator(".problem").waitFor();
  await search.fill("paged nowhere");
  await page.getByRole("heading", { name: "No match." }).waitFor();
  await page.locator("details.help summary").click();
  const help = await page.locator("details.help p").textContent();
  expect(
    ["name", "roleAttributes", "anyOf(…)", "contains"].every((word) => help.includes(word)),
    `the help of the filter says ${help}`,
  );
  await check(page, "a search without a match, with the help of the filter", true);
  await page.keyboard.press("Escape");
  expect(!(await page.locator("details.help p").isVisible()), "Escape closes the help");
  await page.getByRole("button", { name: "Clear the search" }).click();
  await page.getByRole("row").filter({ hasText: "artifacts" }).waitFor();
  await page.waitForFunction(() => document.querySelector("[data-search]").value === "");
  expect(
    (await page.evaluate(() => location.hash)) === "#/services",
    "the address is that of all services",
  );
  // The recorded escapes of a filter cannot write a backslash before an n.
  made.push(await ask("POST", "/services", { name: "CORP\\nina", encryptionRequired: true }));
  await search.fill("P\\nin");
  await page.getByRole("row").filter({ hasText: "CORP\\nina" }).waitFor();
  await Promise.all(made.map(({ id }) => ask("DELETE", `/services/${id}`)));
  await searchHints(page, ask);
  await page.context().close();
}

/** Kinds without roles of their own, or without a name. */
const UNLIKE = [
  "service-policies",
  "configs",
  "auth-policies",
  "api-tokens",
  "enrollments",
  "authenticators",
  "terminators",
  "api-sessions",
  "sessions",
  "circuits",
  "links",
];

/** The example in the search field of a kind is a filter of this kind, and words are searched in what the kind has. */
async function searchHints(page, ask) {
  const examples = [];
  for (const kind of UNLIKE) {
    await open(page, `#/${kind}?filter=alice`);
    expect(
      !(await page.locator(".problem").count()),
      `${kind} cannot search a word: ${await page.locator(".problem").allTextContents()}`,
    );
    examples.push([
      kind,
      /such as (.+)$/.exec(await page.locator("[data-search]").getAttribute("placeholder"))?.[1],
    ]);
  }
  await Promise.all(
    examples.map(async ([kind, example]) => {
      const path = `/${kind}?${new URLSearchParams({ filter: example || "no example", limit: "1" })}`;
      await ask("GET", path)
        .catch(() => ask("GET", `/overkeep/v1${path}`))
        .catch((error) => expect(false, `the hint of ${kind} is ${example}: ${error.message}`));
    }),
  );
  // A record without a name is found by that of the identity that it belongs to.
  await open(page, "#/enrollments?filter=alice");
  await page.getByRole("cell", { name: "alice" }).waitFor();
  expect(
    (await page.locator("tbody tr").count()) === 1,
    "an enrollment is found by the name of its identity",
  );
  // Only some of the identities with such a name are searched: the page says so.
  await page.route(/identities\?.*icontains/, async (route) => {
    const answer = await route.fetch();
    const json = await answer.json();
    json.meta.pagination.totalCount = 51;
    await route.fulfill({ response: answer, json });
  });
  await open(page, "#/enrollments?filter=ali");
  await page
    .getByText("Only the first 50 of 51 identities with such a name were searched.")
    .waitFor();
  await page.unrouteAll();
}

/** Saves the form. Returns the method and the body of its request. */
async function save(page, heading) {
  const [request] = await Promise.all([
    page.waitForRequest(
      (sent) => ["PATCH", "PUT"].includes(sent.method()) && !sent.url().includes("preview"),
    ),
    page.getByRole("button", { name: "Save" }).click(),
  ]);
  await page.getByRole("heading", { level: 1, name: heading, exact: true }).waitFor();
  return [request.method(), request.postDataJSON()];
}

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** An edit sends the members that changed, and the page shows them. */
export async function edits(browser, ask, ids) {
  const page = await signedIn(browser, 1280, "light");
  const expectSent = ([method, body], wantedMethod, wanted, what) =>
    expect(
      method === wantedMethod && same(body, wanted),
      `${what} sends ${method} ${JSON.stringify(body)}`,
    );
  // An identity gets a role that is new.
  await open(page, `#/identities/${ids.marco}/edit`);
  await page.getByRole("combobox", { name: "Roles" }).fill("night-shift");
  await page.keyboard.press("Enter");
  expectSent(
    await save(page, "marco"),
    "PATCH",
    { roleAttributes: ["staff", "support", "night-shift"] },
    "a new role",
  );
  await page.locator(".members").getByText("#night-shift").waitFor();
  // A service gets a name and another way to choose a host, which is in the fold.
  await open(page, `#/services/${ids.calendar}/edit`);
  await page.getByLabel("Name").fill("calendar of all");
  await page.getByText("More settings").click();
  await page.getByLabel("Terminator strategy").fill("random");
  expectSent(
    await save(page, "calendar of all"),
    "PATCH",
    { name: "calendar of all", terminatorStrategy: "random" },
    "a service",
  );
  await page.locator(".members").getByText("random").waitFor();
  await page.getByText("Changes", { exact: true }).waitFor();
  // Data of a config, in the form that its type makes.
  const config = ids["calendar-address"];
  await open(page, `#/configs/${config}/edit`);
  await page.getByLabel("High").fill("444");
  const { data } = await ask("GET", `/configs/${config}`);
  data.portRanges[0].high = 444;
  const [method, body] = await save(page, "calendar-address");
  expect(
    method === "PATCH" && same(Object.keys(body), ["data"]) && body.data.portRanges[0].high === 444,
    `the data of a config sends ${method} ${JSON.stringify(body)}`,
  );
  expect(
    (await ask("GET", `/configs/${config}`)).data.portRanges[0].high === 444,
    "the data of a config is stored",
  );
  await page.locator(".members").getByText("444").waitFor();
  // A policy gets another semantic and one more role.
  await open(page, `#/service-policies/${ids["lena reaches reporting"]}/edit`);
  await page.getByLabel("Semantic").selectOption("AllOf");
  await page.getByRole("combobox", { name: "Service roles" }).fill("#intra");
  await page.getByRole("option", { name: "#intranet" }).click();
  await page.locator(".preview .tallies, .preview .quiet").waitFor();
  expectSent(
    await save(page, "lena reaches reporting"),
    "PATCH",
    { semantic: "AllOf", serviceRoles: [`@${ids.reporting}`, "#intranet"] },
    "a policy",
  );
  await page.locator(".members").getByText("AllOf").waitFor();
  // A member that is emptied: a PATCH would ignore it.
  await ask("PATCH", `/identities/${ids.marco}`, { externalId: "marco@company" });
  await open(page, `#/identities/${ids.marco}/edit`);
  await page.getByText("More settings").click();
  await page.getByLabel("External id").fill("");
  expect((await save(page, "marco"))[0] === "PUT", "a member that is emptied is sent with PUT");
  expect(!(await ask("GET", `/identities/${ids.marco}`)).externalId, "the member is empty");
  await page.context().close();
  await ask("PATCH", `/services/${ids.calendar}`, {
    name: "calendar",
    terminatorStrategy: "smartrouting",
  });
  await ask("PATCH", `/identities/${ids.marco}`, { roleAttributes: ["support", "staff"] });
  await ask("PATCH", `/service-policies/${ids["lena reaches reporting"]}`, {
    semantic: "AnyOf",
    serviceRoles: [`@${ids.reporting}`],
  });
}
