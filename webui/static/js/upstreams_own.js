// What a gateway shows in place of the pages of topics, groups, records, delegation tokens and ACLs.

import { startLive } from "./shell.js";

startLive([], {}).open();
