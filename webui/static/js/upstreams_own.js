// What a gateway shows in place of the pages of topics and groups.

import { startLive } from "./shell.js";

startLive([], {}).open();
