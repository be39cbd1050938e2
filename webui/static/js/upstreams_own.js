// What a gateway shows in place of the pages of topics, groups, records and ACLs.

import { startLive } from "./shell.js";

startLive([], {}).open();
