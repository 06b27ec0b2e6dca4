// The zone in which times are shown.

import { check, expect, open, signedIn } from "../browser.mjs";

/** Times are in the zone of the viewer with UTC on hover and after a tap, or in UTC if the viewer chooses that, with the keyboard. The choice stays. */
export async function utc(browser, ask, ids) {
  const page = await signedIn(browser, 360, "dark");
  const { createdAt } = await ask("GET", `/identities/${ids.alice}`);
  const expected = createdAt.replace("T", " ").replace(/\.\d+Z/, " UTC");
  const created = page.locator(".meta time").first();
  await open(page, `#/identities/${ids.alice}`);
  const [text, title] = [await created.textContent(), await created.getAttribute("title")];
  expect(
    !/UTC/.test(text) && title.endsWith(expected),
    `a time in the zone of the viewer, ${text}, has UTC on hover: ${title}, not ${expected}`,
  );
  await created.click();
  expect(
    (await created.textContent()) === title,
    `a time that is tapped shows ${await created.textContent()}`,
  );
  await check(page, "a time that is tapped", false);
  await created.click();
  expect((await created.textContent()) === text, "a time that is tapped again is as before");
  await open(page, "#/care");
  await page.locator(".snapshots time, .yours ~ time, ul.plain time").first().click();
  await check(page, "a time in a list that is tapped", false);
  await open(page, `#/identities/${ids.alice}`);
  const choose = async (letter, shown) => {
    await page.getByRole("button", { name: "Menu" }).focus();
    await page.keyboard.press("Enter");
    await page.getByLabel("Times").focus();
    await page.keyboard.press(letter);
    await page.keyboard.press("Escape");
    await page.waitForFunction(
      ([wanted, text]) => (document.querySelector(".meta time").textContent === text) === wanted,
      [shown, expected],
    );
  };
  await choose("U", true);
  await page.reload();
  for (const hash of [
    "#/overview",
    "#/history",
    "#/care",
    "#/identities",
    `#/access/ask?identity=${ids.alice}&service=${ids.builds}`,
  ]) {
    await open(page, hash);
    await page.locator("main time").first().waitFor({ state: "attached" });
    const others = (await page.locator("main time").allTextContents()).filter(
      (text) => !/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/.test(text),
    );
    expect(!others.length, `${hash} in UTC shows ${others.slice(0, 3)}`);
    await check(page, `${hash} in UTC`, false);
  }
  await open(page, `#/identities/${ids.alice}`);
  await choose("M", false);
  await page.context().close();
}
