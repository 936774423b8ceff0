import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The server that `npm run dev` sends API requests to. In production the server itself serves the built UI.
const server = process.env.NOETL_URL ?? "http://127.0.0.1:8080";

// Every path outside of /ui belongs to the API.
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
    testTimeout: 60_000, // generous: on a busy machine a page can take seconds
  },
});
