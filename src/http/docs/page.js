// Shows the document of the interface that the address names.
const shown = location.search === "?client" ? "client" : "management";
for (const link of document.querySelectorAll("nav a")) {
  if (link.search === `?${shown}`) link.setAttribute("aria-current", "page");
}
SwaggerUIBundle({
  url: `/edge/${shown}/v1/openapi.json`,
  dom_id: "#document",
  deepLinking: true,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
});
