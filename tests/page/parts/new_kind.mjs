// A kind that the page has no code for.

import { SETTLED, check, expect, logIn, windowOf } from "../browser.mjs";

/** The members of a kind of which the page knows nothing: words, a number, a switch, references to one and to several records, roles of others and of its own, and an object in it. */
const WIDGET = {
  type: "object",
  required: ["name", "colour"],
  properties: {
    name: { type: "string" },
    colour: { type: "string", enum: ["red", "green"] },
    size: { type: "integer" },
    isLoud: { type: "boolean" },
    serviceId: { type: "string" },
    configs: { type: "array", items: { type: "string" } },
    identityRoles: { type: "array", items: { type: "string" } },
    roleAttributes: { type: "array", items: { type: "string" } },
    limits: { $ref: "#/components/schemas/WidgetLimits" },
  },
};
const LIMITS = {
  type: "object",
  required: ["most"],
  properties: { most: { type: "integer" }, unit: { type: "string", enum: ["hour", "day"] } },
};

/** Adds the kind to the document of the management interface. */
function describeWidgets(document) {
  const answers = (items) => ({
    200: { content: { "application/json": { schema: { properties: { data: items } } } } },
  });
  const body = (schema) => ({ content: { "application/json": { schema } } });
  const parameters = [{ name: "preview" }];
  const detail = { $ref: "#/components/schemas/WidgetDetail" };
  Object.assign(document.components.schemas, {
    WidgetLimits: LIMITS,
    WidgetDetail: {
      type: "object",
      properties: {
        id: { type: "string" },
        ...WIDGET.properties,
        createdAt: { type: "string" },
        updatedAt: { type: "string" },
      },
    },
  });
  document.paths["/widgets"] = {
    get: { parameters: [{ name: "filter" }], responses: answers({ type: "array", items: detail }) },
    post: { parameters, requestBody: body(WIDGET), responses: {} },
  };
  document.paths["/widgets/{id}"] = {
    get: { responses: answers(detail) },
    put: { parameters, requestBody: body(WIDGET), responses: {} },
    delete: { parameters, responses: {} },
  };
  document.paths["/widgets/{id}/services"] = {
    get: { parameters: [{ name: "filter" }], responses: answers({ type: "array", items: {} }) },
  };
  document.paths["/widgets/{id}/turn"] = {
    post: {
      summary: "Turns it.",
      parameters,
      requestBody: body({ type: "object", properties: { degrees: { type: "integer" } } }),
      responses: {},
    },
  };
  return document;
}

/** A kind that only the document describes and the page has no code for is listed, shown with its references, created and changed with previews, and acted on. */
export async function newKind(browser, ask, ids) {
  const page = await windowOf(browser, 1280, "light");
  const widget = {
    id: "w1",
    name: "left wing",
    createdAt: "2026-01-01T00:00:00.000Z",
    updatedAt: "2026-01-01T00:00:00.000Z",
    colour: "red",
    size: 3,
    isLoud: true,
    serviceId: ids.wiki,
    configs: [ids["wiki-address"]],
    identityRoles: ["#sales", `@${ids.lena}`],
    roleAttributes: ["wing"],
    limits: { most: 5, unit: "day" },
  };
  const enveloped = (data) => ({
    data,
    meta: { filterableFields: ["id", "name"], pagination: { limit: 10, offset: 0, totalCount: 1 } },
  });
  const side = (name) => ({ count: 1, first: [{ id: name, name }] });
  const gained = { dial: { gained: { pairs: 1, who: side("a gainer"), what: side("a thing") } } };
  await page.route("**/edge/management/v1/openapi.json", async (route) =>
    route.fulfill({ json: describeWidgets(await (await route.fetch()).json()) }),
  );
  await page.route(/\/edge\/management\/v1\/widgets/, (route) => {
    const [path, query = ""] = route.request().url().split("/widgets")[1].split("?");
    const data = query.includes("preview=true")
      ? gained
      : path === "/w1" && route.request().method() === "GET"
        ? widget
        : path === "/w1/services"
          ? [{ id: ids.wiki, name: "wiki" }]
          : route.request().method() === "GET"
            ? [widget]
            : { id: "w1" };
    return route.fulfill({ json: enveloped(data) });
  });
  const sent = (method, button) =>
    Promise.all([
      page.waitForRequest(
        (asked) =>
          asked.method() === method &&
          asked.url().includes("/widgets") &&
          !asked.url().includes("preview"),
      ),
      button.click(),
    ]).then(([asked]) => asked.postDataJSON());
  await logIn(page);
  await page.waitForFunction(SETTLED);
  await page.getByText("More kinds").click();
  await page.getByRole("link", { name: "Widgets" }).click();
  await page.getByRole("cell", { name: "red" }).waitFor();
  await page.getByRole("link", { name: "Create widget" }).click();
  await page.getByLabel("Name").fill("left wing");
  await page.getByLabel("Colour").selectOption("green");
  await page.getByText("More settings").click();
  for (const [label, text, option] of [
    ["Identity roles", "#sal", "#sales"],
    ["Identity roles", "lena", /^lena/],
    ["Service", "wiki", "wiki"],
    ["Configs", "wiki-a", "wiki-address"],
  ]) {
    await page.getByRole("combobox", { name: label, exact: true }).fill(text);
    await page.getByRole("option", { name: option }).first().click();
  }
  await page.getByRole("combobox", { name: "Roles", exact: true }).fill("wing");
  await page.keyboard.press("Enter");
  await page.getByLabel("Size").fill("7");
  await page.getByRole("switch", { name: "Is loud" }).check();
  await page.getByRole("group", { name: "Limits" }).getByLabel("Most").fill("5");
  await page.getByRole("group", { name: "Limits" }).getByLabel("Unit").selectOption("day");
  await page.locator(".preview .gained").filter({ hasText: "a gainer" }).waitFor();
  await check(page, "the form of a new kind", true);
  const made = await sent("POST", page.getByRole("button", { name: "Create", exact: true }));
  const wanted = { ...widget, colour: "green", size: 7 };
  for (const member of Object.keys(WIDGET.properties))
    expect(
      JSON.stringify(made[member]) === JSON.stringify(wanted[member]),
      `the form of a new kind sends ${member}: ${JSON.stringify(made[member])}`,
    );
  await page.getByRole("heading", { level: 1, name: "left wing" }).waitFor();
  for (const name of ["wiki", "wiki-address", "lena"])
    await page.locator(".members").getByRole("link", { name, exact: true }).waitFor();
  await page.locator(".related").getByRole("link", { name: "wiki" }).waitFor();
  await page.getByRole("button", { name: "Turn" }).click();
  await page.getByRole("dialog").getByLabel("Degrees").fill("90");
  await page.getByRole("dialog").locator(".gained").waitFor();
  const turned = await sent("POST", page.getByRole("dialog").getByRole("button", { name: "Turn" }));
  expect(turned.degrees === 90, `an action of a new kind sends ${JSON.stringify(turned)}`);
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("link", { name: "Edit" }).click();
  await page.getByLabel("Colour").selectOption("green");
  const changed = await sent("PATCH", page.getByRole("button", { name: "Save" }));
  expect(
    JSON.stringify(changed) === '{"colour":"green"}',
    `a change of a new kind sends ${JSON.stringify(changed)}`,
  );
  await page.getByRole("heading", { level: 1, name: "left wing" }).waitFor();
  await page.context().close();
}
