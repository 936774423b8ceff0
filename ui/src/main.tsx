import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { preload } from "./routes";
import { placeOf } from "./app/router";
import "./design/tokens.css";
import "./design/base.css";
import "./design/parts.css";
import "./app/app.css";

// While it is asked who we are, the page can come already.
preload(placeOf(window.location.href).path);

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
