/** The execution whose data is shown: references in the data are fetched below it. */

import { createContext } from "react";

export const ExecutionContext = createContext("");
