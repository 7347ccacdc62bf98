#include "report/report.h"

#include "common/message.h"
#include "common/options.h"
#include "common/outputs.h"
#include "common/replacement.h"
#include "report/curves.h"
#include "report/history.h"
#include "report/page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RUNS = 32 }; /* enough: so many curves in one picture can hardly be told apart */

typedef struct report {
  const char *out, *title;
  bool log;
  const char **folders;
  int count;
  history *runs;
} report;

static int parse(report *r, int argc, char **argv) {
  const option rows[] = {
      FLAG("out", OPTION_TEXT, &r->out),
      FLAG("title", OPTION_TEXT, &r->title),
      FLAG("log", OPTION_SWITCH, &r->log),
  };
  r->folders = calloc((size_t)argc + 1, sizeof *r->folders);
  if (!r->folders) return fail("out of memory");
  options all = {
      .command = "report",
      .arguments = "RUN...",
      .words = r->folders,
      .summary = "Writes one page about runs, side by side: curves, results, memory, the\n"
                 "settings that differ. A RUN is a folder that accrue train wrote (--out), and\n"
                 "curves need its metrics. A classifier's confusion matrix and its worst and\n"
                 "best images are taken from RUN/examples.json, which accrue train --examples\n"
                 "writes, or from RUN/eval.json, which is what accrue eval --json prints.\n"
                 "gnuplot draws."};
  OPTIONS_ADD(&all, rows);
  int status = options_parse(&all, argc, argv);
  r->count = all.word_count;
  if (status != STATUS_CONTINUE) return status;
  if (!r->count) return fail_usage("a run is missing: a folder that accrue train has written");
  if (r->count > MOST_RUNS) return fail_usage("a page has room for %d runs at most", MOST_RUNS);
  return STATUS_CONTINUE;
}

static int read_runs(report *r) {
  int status = STATUS_CONTINUE;
  r->runs = calloc((size_t)r->count, sizeof *r->runs);
  if (!r->runs) return fail("out of memory");
  for (int i = 0; i < r->count && status == STATUS_CONTINUE; i++)
    status = history_read(&r->runs[i], r->folders[i]);
  return status == STATUS_CONTINUE ? histories_check(r->runs, (size_t)r->count) : status;
}

static int save(const report *r, const char *text, bool *to_stdout) {
  replacement file;
  bool good = replacement_open(&file, r->out);
  *to_stdout = good && file.descriptor == STDOUT_FILENO;
  if (good && !replacement_write(&file, text)) {
    replacement_abandon(&file);
    good = false;
  } else if (good) good = replacement_commit(&file);
  return good ? STATUS_CONTINUE : fail("cannot write %s: %s", r->out, strerror(errno));
}

static void say_what(const report *r, int pictures) {
  message_put(stdout, "%s: %d run%s, %d picture%s\n", r->out, r->count, r->count == 1 ? "" : "s",
              pictures, pictures == 1 ? "" : "s");
}

static int write_page(const report *r) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *page = open_memstream(&text, &bytes);
  if (!page) return fail("out of memory");
  bool to_stdout = false;
  curves c = {.runs = r->runs, .count = (size_t)r->count, .log = r->log, .path = r->out};
  int status = page_write(page, r->title, &c);
  const bool whole = !ferror(page);
  if ((fclose(page) != 0 || !whole) && status == STATUS_CONTINUE) status = fail("out of memory");
  if (status == STATUS_CONTINUE) status = save(r, text, &to_stdout);
  free(text);
  if (status != STATUS_CONTINUE) return status;
  if (!to_stdout) say_what(r, c.pictures);
  return STATUS_DONE;
}

int report_main(int argc, char **argv) {
  report r = {.out = "report.html"};
  int status = parse(&r, argc, argv);
  if (status == STATUS_CONTINUE) status = outputs_check_file("out", r.out, OUTPUT_PAGE, NULL);
  if (status == STATUS_CONTINUE) status = read_runs(&r);
  if (status == STATUS_CONTINUE && !r.title)
    r.title = r.count > 1 ? "Training runs" : r.runs[0].name;
  if (status == STATUS_CONTINUE) status = write_page(&r);
  for (int i = 0; r.runs && i < r.count; i++) history_free(&r.runs[i]);
  free(r.runs);
  free(r.folders);
  return status;
}
