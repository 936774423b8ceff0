import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { preload } from "./routes";
import { parseLocation } from "./app/router";
import "./design/tokens.css";
import "./design/base.css";
import "./design/components.css";
import "./app/app.css";

// Load the code of the page while the app asks the server for the session.
preload(parseLocation(window.location.href).path);

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
