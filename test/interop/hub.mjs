// Looks at the page of a hub with two live sessions, opens the one named first after keys that
// need a session, and cancels its call: node hub.mjs PLAYWRIGHT CHROMIUM URL. It prints what the page said.
import { cancelCall, open } from "./commands.mjs";
const { browser, tab } = await open();
const saw = {};
try {
  const rows = async (n) => {
    await tab.waitForFunction((n) => document.querySelectorAll(".row").length === n, n, { timeout: 60000 });
    return tab.locator(".row").allTextContents();
  };
  await rows(2);
  const asked = [];
  tab.on("request", (r) => asked.push(new URL(r.url()).pathname));
  for (const key of ["1", "2", "3", "4", "5", "F", "Tab"]) await tab.keyboard.press(key);
  saw.sessions = await rows(2);
  await tab.keyboard.press("/");
  await tab.keyboard.type("first relay");
  saw.found = await rows(1);
  saw.asked = asked.filter((path) => path.startsWith("/api/") && path !== "/api/sessions");
  await tab.locator(".row").first().click();
  await tab.waitForURL("**/session/*");
  saw.address = tab.url();
  saw.cancel = await cancelCall(tab);
  saw.title = await tab.textContent("#title");
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
