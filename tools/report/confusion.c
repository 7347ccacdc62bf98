/* Labels against answers: counts, the darker the larger their share of the label's samples. */
#include "report/tables.h"

#include "common/text.h"
#include "report/html.h"

#include <inttypes.h>

enum { MOST_CLASSES = 100 };

static int64_t count_at(const json_t *row, size_t k) {
  return (int64_t)json_integer_value(json_array_get(row, k));
}

static double sum_of(const json_t *row) {
  double sum = 0;
  for (size_t k = 0; k < json_array_size(row); k++) sum += (double)count_at(row, k);
  return sum;
}

static void put_row(FILE *page, const json_t *row, const char *name, size_t label) {
  const double sum = sum_of(row);
  fputs("<tr><th scope=\"row\">", page);
  if (name) html_name(page, name);
  fprintf(page, "%s%zu</th>", name ? " " : "", label);
  for (size_t k = 0; k < json_array_size(row); k++) {
    const int64_t count = count_at(row, k);
    const double share = sum > 0 ? (double)count / sum : 0;
    fprintf(page, "<td%s style=\"background:rgba(76,114,176,%.2f)\">%" PRId64 "</td>",
            k == label ? " class=\"right\"" : "", 0.6 * share, count);
  }
  if (sum > 0) fprintf(page, "<td>%.1f %%</td></tr>\n", 100 * (double)count_at(row, label) / sum);
  else fputs("<td>-</td></tr>\n", page);
}

static void put_matrix(FILE *page, const json_t *rows, const json_t *names) {
  fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Confusion matrix\">"
        "<table class=\"confusion\">\n<tr><td>label</td>",
        page);
  for (size_t k = 0; k < json_array_size(rows); k++) fprintf(page, "<th scope=\"col\">%zu</th>", k);
  fputs("<th scope=\"col\">right</th></tr>\n", page);
  for (size_t label = 0; label < json_array_size(rows); label++)
    put_row(page, json_array_get(rows, label), json_string_value(json_array_get(names, label)),
            label);
  fputs("</table></div>\n", page);
}

/* Of a segmentation: the intersection over union of each class. */
static void put_ious(FILE *page, const json_t *evaluation) {
  const json_t *ious = json_object_get(evaluation, "iou"),
               *mean = json_object_get(evaluation, "mean_iou");
  if (!json_is_array(ious) || !json_is_number(mean)) return;
  fprintf(page, "<p>They count pixels. The mean IoU is %.2f %%; of the classes:",
          100 * json_number_value(mean));
  for (size_t c = 0; c < json_array_size(ious); c++) {
    const json_t *iou = json_array_get(ious, c);
    if (json_is_number(iou)) fprintf(page, " %zu: %.2f %%", c, 100 * json_number_value(iou));
    else fprintf(page, " %zu: -", c);
    if (c + 1 < json_array_size(ious)) fputc(',', page);
  }
  fputs(".</p>\n", page);
}

void tables_confusion(FILE *page, const history *h) {
  const json_t *source = history_answers(h, "confusion"),
               *rows = json_object_get(source, "confusion");
  const char *split = json_string_value(json_object_get(source, "split"));
  const size_t classes = json_array_size(rows);
  if (!classes) return;
  fputs("<h2>Confusion matrix of ", page);
  html_name(page, h->name);
  fputs("</h2>\n<p>Rows are labels, columns what the model answered", page);
  if (split) {
    fputs(", on the split ", page);
    html_name(page, split);
  }
  fputs(".</p>\n", page);
  put_ious(page, source);
  if (classes <= MOST_CLASSES) put_matrix(page, rows, json_object_get(source, "class_names"));
  else fprintf(page, "<p>With %zu classes it is too large for a page.</p>\n", classes);
}
