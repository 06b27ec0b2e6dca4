// Shows the document of the interface that the address names.
const bases = {
  management: "/edge/management/v1",
  client: "/edge/client/v1",
  overkeep: "/overkeep/v1",
  fabric: "/fabric/v1",
};
const asked = location.search.slice(1);
const shown = Object.hasOwn(bases, asked) ? asked : "management";
for (const link of document.querySelectorAll("nav a")) {
  if (link.search === `?${shown}`) link.setAttribute("aria-current", "page");
}
SwaggerUIBundle({
  url: `${bases[shown]}/openapi.json`,
  dom_id: "#document",
  deepLinking: true,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
});
