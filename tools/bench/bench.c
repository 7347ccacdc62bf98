/* `accrue bench`: what a device can do, and how close products, single ops and whole training steps
 * come to that. */
#include "bench/bench.h"

#include "bench/json.h"
#include "bench/measure.h"
#include "bench/memory.h"
#include "bench/svg.h"
#include "common/device_choice.h"
#include "common/flag_rules.h"
#include "common/gnuplot.h"
#include "common/help.h"
#include "common/json_text.h"
#include "common/message.h"
#include "common/options.h"
#include "common/outputs.h"
#include "common/replacement.h"
#include "common/waiting.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum what { GEMM, OPS, STEP, ALL, MEMORY, WHATS } what;
static const struct {
  const char *name, *command, *summary;
} whats[WHATS] = {
    {"gemm", "bench gemm",
     "Measures what a device can do at best, and products of square matrices."},
    {"ops", "bench ops", "Measures each op, forward and backward, at the shapes of a real model."},
    {"step", "bench step", "Measures whole updates, with all micro-batches."},
    {"all", "bench all", "Measures products, ops and whole updates."},
    {"memory", "bench memory", "Compares a training process's resident memory with its plan."},
};

typedef struct bench {
  what what;
  option_list devices;
  const char *device; /* of `memory`, which takes one device */
  int64_t threads, steps, samples, visits;
  double seconds; /* 0: 2 seconds, for a step 20 */
  uint64_t footprint;
  int model, precision, recompute;
  char models[256]; /* --model's choices */
  bench_wish wish;
  options options;
  const char *json, *baseline, *svg;
  bool quick;
  json_t *then; /* the baseline */
  bench_report report;
} bench;

/* ---- flags ----------------------------------------------------------------------------------- */

static void add_model_flags(bench *b) {
  bench_setting *setting = &b->wish.setting;
  const option rows[] = {
      FLAG("model", OPTION_CHOICE, &b->model,
           .argument = bench_model_names(b->models, sizeof b->models),
           .fallback = b->what == ALL   ? "all but convolutions and elementwise"
                       : b->what == OPS ? "gpt2-124m and resnet18"
                                        : NULL),
      FLAG("batch", OPTION_INTEGER, &setting->batch),
      FLAG("micro-batch", OPTION_INTEGER, &setting->micro_batch,
           .fallback = b->what == OPS ? "the batch" : "planned"),
      FLAG("context", OPTION_INTEGER, &setting->context),
      FLAG("recompute", OPTION_CHOICE, &b->recompute),
  };
  const option memory[] = {
      FLAG("memory", OPTION_SIZE, &setting->memory),
  };
  const option precision[] = {
      FLAG("precision", OPTION_CHOICE, &b->precision,
           .fallback = b->what == GEMM ? "all that the device has" : NULL),
  };
  const option size[] = {
      FLAG("size", OPTION_INTEGER, &b->wish.size),
  };
  if (b->what == GEMM || b->what == ALL) OPTIONS_ADD(&b->options, size);
  if (b->what != GEMM) OPTIONS_ADD(&b->options, rows);
  if (b->what != GEMM && b->what != OPS) OPTIONS_ADD(&b->options, memory);
  OPTIONS_ADD(&b->options, precision);
  if (b->what != GEMM && b->what != ALL) storage_add_options(&setting->storage, &b->options);
}

static void add_measuring_flags(bench *b) {
  const option rows[] = {
      FLAG("filter", OPTION_TEXT, &b->wish.filter), FLAG("device", OPTION_LIST, &b->devices),
      FLAG("threads", OPTION_INTEGER, &b->threads), FLAG("seconds", OPTION_REAL, &b->seconds),
      FLAG("samples", OPTION_INTEGER, &b->samples), FLAG("footprint", OPTION_SIZE, &b->footprint),
  };
  const option quick[] = {
      FLAG("quick", OPTION_SWITCH, &b->quick),
  };
  const option visits[] = {
      FLAG("visits", OPTION_INTEGER, &b->visits),
  };
  const option output[] = {
      FLAG("json", OPTION_TEXT, &b->json),
      FLAG("baseline", OPTION_TEXT, &b->baseline),
  };
  const option picture[] = {
      FLAG("svg", OPTION_TEXT, &b->svg),
  };
  OPTIONS_ADD(&b->options, quick);
  OPTIONS_ADD(&b->options, rows);
  if (b->what != STEP) OPTIONS_ADD(&b->options, visits); /* steps take long as it is */
  OPTIONS_ADD(&b->options, output);
  if (b->what != STEP) OPTIONS_ADD(&b->options, picture); /* steps have no place in it */
}

static void add_memory_flags(bench *b) {
  const option rows[] = {
      FLAG("device", OPTION_TEXT, &b->device),
      FLAG("threads", OPTION_INTEGER, &b->threads),
      FLAG("repeat", OPTION_INTEGER, &b->steps),
  };
  OPTIONS_ADD(&b->options, rows);
}

/* Checks --micro-batch against the batch of every model that will be measured. */
static int check_micro_batch(const bench *b) {
  const bench_setting *setting = &b->wish.setting;
  long long size = (long long)setting->micro_batch, batch = (long long)setting->batch;
  if (batch && size > batch)
    return fail_usage("--micro-batch %lld is larger than the batch of %lld", size, batch);
  for (int m = 0; m < bench_model_count && !batch && b->what != OPS; m++) {
    const bench_model *model = &bench_models[m];
    if (bench_has_step(&b->wish, model) && size > model->batch)
      return fail_usage("--micro-batch %lld is larger than the batch of %s, %lld; --batch sets it",
                        size, model->name, (long long)model->batch);
  }
  return STATUS_CONTINUE;
}

/* What --quick means, unless a flag says otherwise. */
static void be_quick(bench *b) {
  const options *o = &b->options;
  if (!options_given(o, "seconds")) b->seconds = 0.1;
  if (!options_given(o, "samples")) b->samples = 5;
  if (!options_given(o, "visits")) b->visits = 1;
  if (!options_given(o, "size")) b->wish.size = 512;
  if (options_given(o, "model")) return;
  for (int m = 0; m < bench_model_count; m++)
    if (!strcmp(bench_models[m].name, "gpt-small")) b->wish.model = &bench_models[m];
}

static int parse(bench *b, int argc, char **argv) {
  b->options = (options){.command = whats[b->what].command, .summary = whats[b->what].summary};
  add_model_flags(b);
  if (b->what == MEMORY) add_memory_flags(b);
  else add_measuring_flags(b);
  int status = options_parse(&b->options, argc, argv);
  if (status != STATUS_CONTINUE) return status;
  bench_wish *wish = &b->wish;
  wish->setting.precision = (ac_precision)b->precision;
  wish->setting.recompute = (ac_recompute)b->recompute;
  status = flag_rules_check(&b->options);
  if (status == STATUS_CONTINUE)
    status = storage_check(&wish->setting.storage, wish->setting.precision);
  if (status != STATUS_CONTINUE) return status;
  wish->every_precision = !options_given(&b->options, "precision");
  if (b->what == STEP || b->what == MEMORY || options_given(&b->options, "model"))
    wish->model = &bench_models[b->model];
  if (b->quick) be_quick(b);
  if (wish->model && !wish->model->context && wish->setting.context)
    return fail_usage("--context has no meaning for %s", wish->model->name);
  status = check_micro_batch(b);
  if (status != STATUS_CONTINUE) return status;
  wish->desc =
      (ac_bench_desc){.seconds = b->seconds, .samples = (int)b->samples, .footprint = b->footprint};
  wish->step_desc = wish->desc;
  if (!b->seconds) wish->step_desc.seconds = 20;
  wish->visits = (int)b->visits;
  return STATUS_CONTINUE;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Does not open pipes without a reader, and leaves no file. */
static int check_writable(const char *path) {
  replacement file;
  if (!replacement_open(&file, path)) return fail("cannot write %s: %s", path, strerror(errno));
  replacement_abandon(&file);
  return STATUS_CONTINUE;
}

/* Before anything is measured: if a result cannot be written afterwards, measuring is useless. */
static int check_files(bench *b) {
  if (b->baseline) {
    int status = bench_json_read(&b->then, b->baseline);
    if (status != STATUS_CONTINUE) return status;
  }
  int status = STATUS_CONTINUE;
  if (b->json) status = outputs_check_file("json", b->json, OUTPUT_BENCH, NULL);
  if (b->json && status == STATUS_CONTINUE) status = check_writable(b->json);
  if (b->svg && status == STATUS_CONTINUE)
    status = outputs_check_file("svg", b->svg, OUTPUT_SVG, NULL);
  return status == STATUS_CONTINUE && b->svg ? gnuplot_check(b->svg) : status;
}

static int open_devices(bench *b) {
  bench_report *report = &b->report;
  if (!b->devices.count) b->devices = (option_list){{"auto"}, 1};
  for (int i = 0; i < b->devices.count; i++) {
    const ac_device_desc desc = {
        .name = device_choose(b->devices.items[i]), .threads = (int)b->threads, .log = waiting_log};
    const ac_status opened = ac_device_open(&report->devices[i], &desc);
    if (opened != AC_OK) return fail_setup(opened);
    report->device_count++;
    const char *id = ac_device_get_info(report->devices[i])->id;
    for (int k = 0; k < i; k++)
      if (!strcmp(id, ac_device_get_info(report->devices[k])->id))
        return fail_usage("--device %s is %s, which is given twice", desc.name, id);
  }
  return STATUS_CONTINUE;
}

static bool has_part(const bench *b, what part) {
  return b->what == part || b->what == ALL;
}

/* Runs the parts that were asked for. */
static int go_through(bench *b) {
  bench_report *report = &b->report;
  int status = STATUS_CONTINUE;
  if (has_part(b, GEMM)) status = bench_measure_gemm(report, &b->wish);
  if (status == STATUS_CONTINUE && has_part(b, OPS)) status = bench_measure_ops(report, &b->wish);
  if (status == STATUS_CONTINUE && has_part(b, STEP))
    status = bench_measure_steps(report, &b->wish);
  return status;
}

/* Checks that the filter leaves a row, before the roofs are measured, which takes seconds. */
static int check_filter(bench *b) {
  if (!b->wish.filter) return STATUS_CONTINUE;
  b->wish.count_only = true;
  const int status = go_through(b), rows = b->report.count;
  b->wish.count_only = false;
  b->report.count = 0;
  if (status != STATUS_CONTINUE || rows) return status;
  return fail_usage("--filter %s: no row contains that", b->wish.filter);
}

static volatile sig_atomic_t caught;

/* A second signal ends the program at once. */
static void on_signal(int number) {
  caught = number;
}

/* Ends as shells expect after a signal. */
static int signal_status(int status) {
  return caught ? 128 + caught : status;
}

static void watch_signals(bench *b) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)(SA_RESTART | SA_RESETHAND)};
  struct sigaction before;
  sigemptyset(&action.sa_mask);
  b->wish.signal = &caught;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
      sigaction(numbers[i], &action, NULL);
}

static int measure(bench *b) {
  bench_report *report = &b->report;
  report->footprint = b->footprint;
  report->samples = (int)b->samples;
  report->visits = b->what == STEP ? 0 : (int)b->visits;
  int status = check_filter(b);
  if (status == STATUS_CONTINUE) status = bench_measure_roofs(report, &b->wish);
  if (status == STATUS_CONTINUE && !caught) status = go_through(b);
  int results = bench_count_results(report);
  if (status == STATUS_CONTINUE && results && !caught) status = bench_check_roofs(report, &b->wish);
  if (results) bench_print_notes(report);
  if (caught) say("stopped by a signal; the rows that were measured so far are printed");
  if (status != STATUS_CONTINUE || results || caught) return status;
  return fail("no device runs any of the rows that are left");
}

static int put_results(const bench *b) {
  if (!b->json && !b->then && !b->svg) return STATUS_DONE;
  json_t *now = bench_json(&b->report);
  if (!now) return fail("out of memory");
  const bench_asked asked = {.kinds = {[BENCH_GEMM] = has_part(b, GEMM),
                                       [BENCH_OP] = has_part(b, OPS),
                                       [BENCH_STEP] = has_part(b, STEP)},
                             .filter = b->wish.filter};
  if (b->then) bench_json_compare(now, b->then, &asked, stdout);
  int status = b->json ? json_text_replace(now, JSON_INDENT(2), b->json) : STATUS_CONTINUE;
  json_decref(now);
  if (status == STATUS_CONTINUE && b->svg) status = bench_svg(&b->report, b->svg);
  return status == STATUS_CONTINUE ? STATUS_DONE : status;
}

/* Results before a failure are kept; the exit status tells the failure. */
static int run(bench *b) {
  int status = check_files(b);
  if (status == STATUS_CONTINUE) status = open_devices(b);
  if (status != STATUS_CONTINUE) return status;
  watch_signals(b);
  status = measure(b);
  if (!bench_count_results(&b->report)) return status;
  int put = put_results(b);
  return status == STATUS_CONTINUE ? put : status;
}

static int put_help(help_form form) {
  help h = help_begin(form, "bench", "WHAT [flags]", "Measures devices.");
  help_commands(&h, "MEASUREMENTS");
  for (int i = 0; i < WHATS; i++) help_put_command(&h, whats[i].name, whats[i].summary);
  help_paragraph(&h, "accrue bench WHAT --help lists the flags.");
  help_end(&h);
  return STATUS_DONE;
}

int bench_main(int argc, char **argv) {
  if (argc > 0 && help_asked(argv[0])) return put_help(help_asked(argv[0]));
  if (argc < 1 || argv[0][0] == '-')
    return fail_usage("what to measure is missing, such as accrue bench all; accrue bench --help "
                      "lists it");
  setvbuf(stdout, NULL, _IOLBF, 0); /* a reader of a pipe sees each row as it comes */
  bench b = {.device = "auto", .steps = 10, .samples = 15, .visits = 5};
  while (b.what < WHATS && strcmp(argv[0], whats[b.what].name) != 0) b.what++;
  if (b.what == WHATS)
    return fail_usage("unknown measurement %s; accrue bench --help lists them", argv[0]);
  int status = parse(&b, argc - 1, argv + 1);
  if (status == STATUS_CONTINUE && b.what == MEMORY) {
    const ac_device_desc desc = {.name = b.device, .threads = (int)b.threads};
    status = bench_memory(&desc, b.wish.model, &b.wish.setting, b.steps);
  } else if (status == STATUS_CONTINUE) {
    status = signal_status(run(&b));
  }
  for (int d = 0; d < b.report.device_count; d++) ac_device_close(b.report.devices[d]);
  free(b.report.rows);
  json_decref(b.then);
  return status;
}
