// The page of a topic or a group that does not exist.

import { startLive } from "./shell.js";
import { showName } from "./thing.js";

showName(`/${location.pathname.split("/")[1]}/`);
startLive([], {}).open();
