/* A run's folder as `accrue report` reads it, and the page about it: the bytes before the first
 * zero byte are run.json, eval.json and examples.json, the rest are the metrics. */
#include "fuzz.h"

#include "common/gnuplot.h"
#include "common/message.h"
#include "report/page.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what the page's code calls -------------------------------------------------------------- */

static int sentences;

static void count_sentence(const char *format, va_list arguments) {
  char sentence[65536];
  FUZZ_CHECK(vsnprintf(sentence, sizeof sentence, format, arguments) > 0);
  sentences++;
}

int fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  count_sentence(format, arguments);
  va_end(arguments);
  return STATUS_FAILED;
}

void say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  count_sentence(format, arguments);
  va_end(arguments);
}

/* Instead of gnuplot: a reader of its commands. */
static char *commands;
static size_t command_bytes;

int gnuplot_open(gnuplot *g, const char *path, int width, int height) {
  FUZZ_CHECK(path && width > 0 && height > 0);
  g->pipe = open_memstream(&commands, &command_bytes);
  FUZZ_CHECK(g->pipe);
  return STATUS_CONTINUE;
}

int gnuplot_take(gnuplot *g, char **svg) {
  FUZZ_CHECK(fclose(g->pipe) == 0 && !strstr(commands, "inf"));
  free(commands);
  *svg = strdup("<svg width='1'><use href='#a'/><title>x</title></svg>");
  return STATUS_CONTINUE;
}

/* ---- the folder ------------------------------------------------------------------------------ */

static char folder[] = "/tmp/accrue-fuzz-XXXXXX";

static void name_file(const char *name, const char *target) {
  char path[64];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  unlink(path);
  if (target) FUZZ_CHECK(symlink(target, path) == 0);
}

static void remove_folder(void) {
  name_file("run.json", NULL);
  name_file("eval.json", NULL);
  name_file("examples.json", NULL);
  name_file("metrics.jsonl", NULL);
  rmdir(folder);
}

static void make_folder(void) {
  static bool made;
  if (made) return;
  FUZZ_CHECK(mkdtemp(folder));
  made = true;
  atexit(remove_folder);
  const char *object = fuzz_file(0, "", 0), *lines = fuzz_file(1, "", 0);
  name_file("run.json", object);
  name_file("eval.json", object);
  name_file("examples.json", object);
  name_file("metrics.jsonl", lines);
}

/* ---- the page -------------------------------------------------------------------------------- */

/* Names that others have chosen make no tag and end no attribute, and numbers are some. */
static void check_page(const char *page) {
  static const char *const strange[] = {"<z",   "<script", "\"z",      "\x01",
                                        "\x1b", "n\">nan", "n\">-nan", "n\">inf"};
  FUZZ_CHECK(strstr(page, "</html>"));
  for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
    FUZZ_CHECK(!strstr(page, strange[i]));
}

static void write_page(history *runs, bool log) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *page = open_memstream(&text, &bytes);
  curves c = {.runs = runs, .count = 1, .log = log, .path = "page"};
  FUZZ_CHECK(page && page_write(page, "<z>", &c) == STATUS_CONTINUE && fclose(page) == 0);
  check_page(text);
  free(text);
}

static void run(const uint8_t *data, size_t bytes) {
  const uint8_t *zero = memchr(data, 0, bytes);
  const size_t first = zero ? (size_t)(zero - data) : bytes;
  make_folder();
  fuzz_file(0, data, first);
  fuzz_file(1, data + first + (zero != NULL), bytes - first - (zero != NULL));
  history h;
  sentences = 0;
  int status = history_read(&h, folder);
  FUZZ_CHECK(status == STATUS_CONTINUE || sentences);
  if (status == STATUS_CONTINUE) write_page(&h, bytes % 2);
  history_free(&h);
}

static void seeds(fuzz_take take) {
  static const char whole[] =
      "{\"model\":\"<z>\",\"started\":\"1\",\"resumed\":[\"2\"],\"outcome\":\"done\",\"host\":\"<z>"
      "\","
      "\"device\":{\"id\":\"cpu\",\"name\":\"\\\"z\\u0001\",\"threads\":2},\"plan\":{\"micro_"
      "batch\":"
      "2},\"flags\":{\"lr\":0.5,\"<z>\":[]},\"given\":[\"lr\"],\"confusion\":[[1,2],[3,4]]}\0"
      "{\"event\":\"plan\",\"effective_batch\":4,\"planned_bytes\":{\"total\":9,\"io\":1}}\n"
      "{\"event\":\"step\",\"step\":1,\"loss\":2.5,\"lr\":1e-3,\"grad_norm\":1,\"loss_scale\":2}\n"
      "{\"event\":\"step\",\"step\":2,\"loss\":null,\"loss_scale\":4,\"replayed\":true}\n"
      "{\"event\":\"step\",\"step\":2,\"loss\":1e99,\"loss_scale\":1,\"samples_per_s\":7}\n"
      "{\"event\":\"eval\",\"step\":2,\"loss\":2,\"accuracy\":0.5}\n"
      "{\"event\":\"end\",\"seconds\":3,\"peak_bytes\":9,\"samples_per_s\":1e9}\n";
  static const char bare[] = "{\"flags\":{},\"confusion\":[]}";
  take(whole, sizeof whole - 1);
  take(bare, sizeof bare - 1);
}

const fuzz_format fuzz_report = {"report", run, seeds};
