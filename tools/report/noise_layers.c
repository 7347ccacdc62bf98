#include "report/noise_layers.h"

#include "report/html.h"

static void put_number(FILE *page, const json_t *fields, const char *name) {
  const json_t *value = json_object_get(fields, name);
  if (json_is_number(value)) fprintf(page, "<td class=\"n\">%.4g</td>", json_number_value(value));
  else fputs("<td class=\"n\">-</td>", page);
}

void noise_layers_table(FILE *page, const history *h) {
  static const char *const heads[] = {"Gradient, squared norm", "Variance of a sample's",
                                      "Noise scale, samples"};
  const char *const keys[] = {"gradient_squares", "variance", "noise_scale"};
  const json_t *squares = json_object_get(h->noise_layers, keys[0]);
  const char *name;
  json_t *unused;
  if (!json_object_size(squares)) return;
  fprintf(page, "<h2>Noise of gradients at step %" JSON_INTEGER_FORMAT ", ",
          json_integer_value(json_object_get(h->noise_layers, "step")));
  html_name(page, h->name);
  fputs("</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Noise of "
        "gradients\"><table>\n<tr><td></td>",
        page);
  for (int k = 0; k < 3; k++) fprintf(page, "<th class=\"n\" scope=\"col\">%s</th>", heads[k]);
  fputs("</tr>\n", page);
  json_object_foreach((json_t *)squares, name, unused) {
    fputs("<tr><th scope=\"row\">", page);
    html_name(page, name);
    fputs("</th>", page);
    for (int k = 0; k < 3; k++) put_number(page, json_object_get(h->noise_layers, keys[k]), name);
    fputs("</tr>\n", page);
  }
  fputs("</table></div>\n", page);
}
