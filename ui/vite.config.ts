import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// Where `npm run dev` finds a server; the built UI is served by the server itself.
const server = process.env.NOETL_URL ?? "http://127.0.0.1:8080";

// Whatever is not the UI is the API: it lives at the root, beside /ui.
const proxy = { "^/(?!ui/)": { target: server, changeOrigin: true } };

export default defineConfig({
  base: "/ui/",
  plugins: [react()],
  server: { proxy },
  worker: { format: "es" },
  build: { target: "es2022", sourcemap: false, chunkSizeWarningLimit: 1600 },
  test: {
    environment: "jsdom",
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["src/testing/setup.ts"],
    testTimeout: 60_000, // for what never comes: on a machine with much else to do a page takes seconds
  },
});
