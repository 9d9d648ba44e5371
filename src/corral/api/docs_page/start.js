// Shows the OpenAPI document with Scalar (`viewer.js`). Every address is relative to the page, so that it works behind a
// path prefix, and nothing is fetched from another host: the page's Content-Security-Policy would refuse it.

const root = new URL("../", import.meta.url);
const storageKey = `corral-key ${root.pathname}`; // as the dashboard keeps it
const key = localStorage.getItem(storageKey);
addEventListener("storage", (change) => [storageKey, null].includes(change.key) && location.reload()); // signed in or out
const answer = await fetch("schema/openapi.json");
const shown = await answer.json();

// A request that is tried out sends what is required, and `dryRun`, so that a create shows its plan and buys nothing. The
// other parameters are listed with their example and switched off.
for (const operation of Object.values(shown.paths).flatMap((methods) => Object.values(methods))) {
  for (const parameter of operation.parameters ?? []) {
    if (parameter.required || parameter.name === "dryRun") continue;
    parameter.examples = { default: { value: parameter.example, "x-disabled": true } };
    delete parameter.example;
  }
  for (const response of Object.values(operation.responses)) {
    response.description = response.description.replaceAll("`", ""); // shown as plain text in one place
  }
}

globalThis.Scalar.createApiReference("#viewer", {
  content: shown,
  servers: [{ url: root.href.replace(/\/$/, ""), description: "This service" }],
  authentication: {
    preferredSecurityScheme: "bearer",
    securitySchemes: { bearer: { token: key ?? "" } },
  },
  hiddenClients: true, // only the examples of the document, in curl and Python
  documentDownloadType: "none", // the header links to it
  withDefaultFonts: false,
  telemetry: false,
  persistAuth: false,
  hideClientButton: true,
  showDeveloperTools: "never",
  agent: { disabled: true },
  mcp: { disabled: true },
});
