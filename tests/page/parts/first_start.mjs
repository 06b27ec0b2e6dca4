// A controller that has nothing but its first administrator.

import { SETTLED, check, expect, windowOf } from "../browser.mjs";
import { enroll, logInWith } from "../client.mjs";
import { emptyController } from "../controller.mjs";
import { administrator } from "../seed.mjs";

/** From nothing to a first client that is enrolled and logs in. Log-ins and refusals appear on the live page as they happen. */
export async function firstStart(browser) {
  const { url, password, stop } = await emptyController();
  const page = await windowOf(browser, 1280, "light", undefined, {}, [url]);
  try {
    await page.goto(`${url}/`);
    await page.locator("#username").fill("admin");
    await page.locator("#password").fill(password);
    await page.keyboard.press("Enter");
    await page.waitForFunction(SETTLED);
    await page.getByRole("heading", { name: "First steps" }).waitFor();
    await check(page, "the overview of an empty controller", true);
    await page.locator(".first").getByRole("link", { name: "Invite" }).click();
    await page.getByLabel("Name").first().fill("the-first-laptop");
    await page.keyboard.press("Enter");
    await page.locator(".qr path").waitFor();
    const made = await enroll(await page.locator(".enrollment pre").textContent());
    await page.locator(".steps li").nth(1).locator(".quiet").waitFor();
    expect((await logInWith(made, url)) === 200, "the first client logs in");
    await page.locator(".steps li").nth(2).locator(".quiet").waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByRole("heading", { name: "Needs attention" }).waitFor();
    // A client is no traffic yet: the first steps stay.
    await page.getByRole("heading", { name: "First steps" }).waitFor();
    // Live rows. The first refusal after a quiet minute is written at once.
    const loads = [];
    page.on("request", (request) => request.isNavigationRequest() && loads.push(request.url()));
    await page.getByRole("link", { name: "Live" }).click();
    await page.locator(".pulse.on").waitFor();
    const rows = (kind) => page.getByRole("log").locator(`li.${kind}`);
    // Log-ins of one identity within a minute share a row, so that another one logs in.
    const ask = await administrator(url, "admin", password);
    const { id: identityId } = await ask("POST", "/identities", {
      name: "second",
      type: "Default",
      isAdmin: true,
    });
    await ask("POST", "/authenticators", {
      method: "updb",
      identityId,
      username: "second",
      password: "the second administrator",
    });
    await administrator(url, "second", "the second administrator");
    await rows("of-login").filter({ hasText: "second" }).first().waitFor();
    await administrator(url, "admin", "not the password").catch(() => null);
    await rows("of-refusal").filter({ hasText: "was refused" }).first().waitFor();
    expect(!loads.length, `the live page was loaded anew: ${loads}`);
  } finally {
    await page.context().close();
    await stop();
  }
}
