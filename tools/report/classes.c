/* How well each class is answered, from a confusion matrix: the worst first. */
#include "report/html.h"
#include "report/tables.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MOST_ROWS = 30 };

typedef struct class_row {
  size_t class, taken_for; /* another class, the most frequent wrong answer */
  double samples, right, wrong;
} class_row;

static class_row row_of(const json_t *rows, size_t class) {
  const json_t *row = json_array_get(rows, class);
  class_row r = {.class = class};
  for (size_t k = 0; k < json_array_size(row); k++) {
    const double count = (double)json_integer_value(json_array_get(row, k));
    r.samples += count;
    if (k == class) r.right = count;
    else if (count > r.wrong) r.wrong = count, r.taken_for = k;
  }
  return r;
}

/* By accuracy, then by number. */
static int compare(const void *a, const void *b) {
  const class_row *x = a, *y = b;
  const double p = x->right * y->samples, q = y->right * x->samples;
  if (p != q) return p < q ? -1 : 1;
  return x->class < y->class ? -1 : 1;
}

static void put_class(FILE *page, const json_t *names, size_t class) {
  const char *name = json_string_value(json_array_get(names, class));
  if (name) html_name(page, name);
  else fprintf(page, "%zu", class);
}

static void put_row(FILE *page, const json_t *names, const class_row *r) {
  const double share = r->right / r->samples;
  fputs("<tr><th scope=\"row\">", page);
  put_class(page, names, r->class);
  fprintf(page,
          "</th><td class=\"n\">%.0f</td><td class=\"n\">%.1f %%<span class=\"bar\" "
          "style=\"width:%.1f%%\"></span></td><td>",
          r->samples, 100 * share, 100 * share);
  if (r->wrong > 0) {
    put_class(page, names, r->taken_for);
    fprintf(page, " (%.0f)", r->wrong);
  }
  fputs("</td></tr>\n", page);
}

void tables_classes(FILE *page, const history *h) {
  const json_t *source = history_answers(h, "confusion"),
               *rows = json_object_get(source, "confusion"),
               *names = json_object_get(source, "class_names");
  const size_t classes = json_array_size(rows);
  size_t count = 0;
  class_row *sorted = classes ? calloc(classes, sizeof *sorted) : NULL;
  for (size_t c = 0; sorted && c < classes; c++) {
    sorted[count] = row_of(rows, c);
    count += sorted[count].samples > 0;
  }
  if (count) {
    qsort(sorted, count, sizeof *sorted, compare);
    fputs("<h2>Classes of ", page);
    html_name(page, h->name);
    fputs("</h2>\n", page);
    if (count > MOST_ROWS)
      fprintf(page, "<p>The %d with the least accuracy, of %zu.</p>\n", (int)MOST_ROWS, count);
    fputs("<table class=\"classes\">\n<tr><td></td><th class=\"n\" scope=\"col\">Samples</th>"
          "<th class=\"n\" scope=\"col\">Right</th><th scope=\"col\">Most often taken for</th>"
          "</tr>\n",
          page);
    for (size_t i = 0; i < count && i < MOST_ROWS; i++) put_row(page, names, &sorted[i]);
    fputs("</table>\n", page);
  }
  free(sorted);
}
