#include "report/layers.h"

#include "report/html.h"

#include <inttypes.h>
#include <string.h>

static void put_number(FILE *page, const json_t *value) {
  if (json_is_number(value)) fprintf(page, "<td class=\"n\">%.4g</td>", json_number_value(value));
  else fputs("<td class=\"n\">-</td>", page);
}

/* The run's last words on a layer. */
static void put_hint(FILE *page, const history *h, const char *name) {
  size_t i;
  json_t *hint;
  fputs("<td>", page);
  json_array_foreach(json_object_get(h->end, "layer_hints"), i, hint) {
    const char *of = json_string_value(json_object_get(hint, "name")),
               *said = json_string_value(json_object_get(hint, "hint"));
    if (!of || !said || strcmp(of, name) != 0) continue;
    html_name(page, said);
    if (!strcmp(said, "dead units"))
      fprintf(page, ": %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT,
              json_integer_value(json_object_get(hint, "dead_units")),
              json_integer_value(json_object_get(hint, "units")));
  }
  fputs("</td>", page);
}

void layers_table(FILE *page, const history *h) {
  static const char *const keys[] = {"gradient_norm", "weight_norm", "update_ratio"};
  const json_t *norms = json_object_get(h->layers, keys[0]), *step;
  const char *name;
  json_t *unused;
  if (!json_object_size(norms)) return;
  step = json_object_get(h->layers, "step");
  fprintf(page, "<h2>Layers at step %" JSON_INTEGER_FORMAT ", ", json_integer_value(step));
  html_name(page, h->name);
  fputs("</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Layers\">"
        "<table class=\"layers\">\n<tr><td></td><th class=\"n\" scope=\"col\">Gradient norm</th>"
        "<th class=\"n\" scope=\"col\">Weight norm</th>"
        "<th class=\"n\" scope=\"col\">Update / weight</th><th scope=\"col\">Hint</th></tr>\n",
        page);
  json_object_foreach((json_t *)norms, name, unused) {
    fputs("<tr><th scope=\"row\">", page);
    html_name(page, name);
    fputs("</th>", page);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
      put_number(page, json_object_get(json_object_get(h->layers, keys[k]), name));
    put_hint(page, h, name);
    fputs("</tr>\n", page);
  }
  fputs("</table></div>\n", page);
}
