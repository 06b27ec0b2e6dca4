// The pages that are more than a list of records, in the order of the navigation. The name of a page is also that of its text and its icon.

import { Access } from "./access.js";
import { Care } from "./care.js";
import { History } from "./history.js";
import { Live } from "./live.js";

export const PAGES = [
  { name: "access", show: Access },
  { name: "live", show: Live },
  { name: "history", show: History },
  { name: "care", show: Care },
];
