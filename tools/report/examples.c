#include "report/examples.h"

#include "report/html.h"
#include "report/tables.h"

#include <inttypes.h>
#include <string.h>

enum { MOST = 64, MOST_ROWS = 16 }; /* images of a list; rows and columns of changed ones */

/* Whether it is a PNG picture in base64, and nothing that would end its attribute. */
static const char *png_of(const json_t *value) {
  static const char start[] = "iVBORw0KGgo", digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                        "abcdefghijklmnopqrstuvwxyz0123456789+/=";
  const char *text = json_string_value(value);
  if (!text || strncmp(text, start, sizeof start - 1) != 0) return NULL;
  return text[strspn(text, digits)] ? NULL : text;
}

static void put_image(FILE *page, const char *png, const char *alt) {
  fputs("<img alt=\"", page);
  html_text(page, alt);
  fprintf(page, "\" src=\"data:image/png;base64,%s\"/>", png);
}

/* ---- worst and best -------------------------------------------------------------------------- */

static void put_class(FILE *page, const json_t *names, const json_t *class) {
  const json_int_t number = json_integer_value(class);
  const char *name = number >= 0 ? json_string_value(json_array_get(names, (size_t)number)) : NULL;
  if (name) html_name(page, name);
  else fprintf(page, "%" JSON_INTEGER_FORMAT, number);
}

static void put_caption(FILE *page, const json_t *names, const json_t *one, bool right) {
  const char *file = json_string_value(json_object_get(one, "file"));
  const double probability = json_number_value(json_object_get(one, "probability")),
               loss = json_number_value(json_object_get(one, "loss"));
  fputs("<figcaption>", page);
  put_class(page, names, json_object_get(one, "label"));
  if (!right) {
    fputs(", <b>taken for ", page);
    put_class(page, names, json_object_get(one, "answer"));
    fputs("</b>", page);
  }
  fprintf(page, "<br/>%.1f %%, loss %.3g<br/><small>", 100 * probability, loss);
  if (file) html_name(page, file);
  else
    fprintf(page, "sample %" JSON_INTEGER_FORMAT,
            json_integer_value(json_object_get(one, "sample")));
  fputs("</small></figcaption>", page);
}

static bool is_example(const json_t *one) {
  return png_of(json_object_get(one, "png")) && json_is_integer(json_object_get(one, "label")) &&
         json_is_integer(json_object_get(one, "answer")) &&
         json_is_number(json_object_get(one, "probability")) &&
         json_is_number(json_object_get(one, "loss"));
}

static void put_list(FILE *page, const history *h, const char *key, const char *title,
                     const char *sentence) {
  const json_t *source = history_answers(h, key), *list = json_object_get(source, key),
               *names = json_object_get(source, "class_names");
  if (!json_array_size(list)) return;
  fprintf(page, "<h2>%s of ", title);
  html_name(page, h->name);
  fprintf(page, "</h2>\n<p>%s</p>\n<div class=\"examples\">\n", sentence);
  for (size_t i = 0; i < json_array_size(list) && i < MOST; i++) {
    const json_t *one = json_array_get(list, i);
    if (!is_example(one)) continue;
    const bool right = json_integer_value(json_object_get(one, "label")) ==
                       json_integer_value(json_object_get(one, "answer"));
    fprintf(page, "<figure%s>", right ? "" : " class=\"wrong\"");
    put_image(page, png_of(json_object_get(one, "png")), right ? "right answer" : "wrong answer");
    put_caption(page, names, one, right);
    fputs("</figure>\n", page);
  }
  fputs("</div>\n", page);
}

/* ---- changed --------------------------------------------------------------------------------- */

static void put_changed_row(FILE *page, const json_t *row) {
  fputs("<tr>", page);
  for (size_t i = 0; i < json_array_size(row) && i < MOST_ROWS; i++) {
    const char *png = png_of(json_array_get(row, i));
    fputs("<td>", page);
    if (png) put_image(page, png, "image that trains");
    fputs("</td>", page);
  }
  fputs("</tr>\n", page);
}

static void put_changed(FILE *page, const history *h) {
  const json_t *rows = json_object_get(h->examples, "changed");
  if (!json_array_size(rows)) return;
  const bool balanced =
      json_is_true(json_object_get(json_object_get(h->record, "flags"), "balanced"));
  fputs("<h2>Images that train ", page);
  html_name(page, h->name);
  fprintf(page,
          "</h2>\n<p>%s</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
          "aria-label=\"Images that train\"><table class=\"changed\">\n",
          balanced ? "A row is a sample in the first epochs. Its picture is another one each time, "
                     "as classes are balanced."
                   : "A row is an image: as it is, then as it changes in the first epochs.");
  for (size_t i = 0; i < json_array_size(rows) && i < MOST_ROWS; i++)
    put_changed_row(page, json_array_get(rows, i));
  fputs("</table></div>\n", page);
}

void examples_write(FILE *page, const history *h) {
  put_list(page, h, "worst", "Worst validated images",
           "Those with the largest losses: the label, and with how much probability the model "
           "answered.");
  put_list(page, h, "best", "Best validated images", "Those with the smallest losses.");
  put_changed(page, h);
}
