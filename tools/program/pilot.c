/* `accrue pilot`: finds good settings with short runs over a grid of them. */
#include "program/pilot.h"

#include "common/gnuplot.h"
#include "common/message.h"
#include "common/progress.h"
#include "program/commands.h"
#include "program/run_outputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- flags ----------------------------------------------------------------------------------- */

static pilot_flags flags;
static char out[64];

static void more_flags(options *o) {
  const option rows[] = {
      FLAG("grid", OPTION_LIST, &flags.grid),
      FLAG("ablate", OPTION_LIST, &flags.ablate),
      FLAG("seeds", OPTION_INTEGER, &flags.seeds),
      FLAG("folds", OPTION_INTEGER, &flags.folds),
      FLAG("target-loss", OPTION_REAL, &flags.target),
      FLAG("halving", OPTION_INTEGER, &flags.halving),
      FLAG("json", OPTION_SWITCH, &flags.json),
      FLAG("svg", OPTION_TEXT, &flags.svg),
  };
  OPTIONS_ADD(o, rows);
  option *folder = options_find(o, "out");
  snprintf(out, sizeof out, "%s-pilot", *(const char **)folder->value);
  *(const char **)folder->value = out;
}

static int check_flags(pilot *p) {
  if (p->setup.flags.seed > INT64_MAX - p->flags.seeds)
    return fail_usage("--seed %" PRId64 " leaves no room for more seeds", p->setup.flags.seed);
  for (int i = 0; i < p->grid.axis_count; i++) {
    const char *name = p->grid.axes[i].name;
    if (p->flags.halving && (!strcmp(name, "steps") || !strcmp(name, "epochs")))
      return fail_usage("--halving stops cells by their steps, so --grid %s contradicts it", name);
    if (p->flags.folds && !strcmp(name, "fold"))
      return fail_usage("--folds and --grid fold contradict each other");
  }
  if (p->flags.svg && !p->grid.axis_count)
    return fail_usage("--svg draws a grid, and there is none");
  return STATUS_CONTINUE;
}

/* The words that every run takes from the command line: all but what the pilot sets itself. */
static bool is_own(const option *row) {
  const flag_record *r = row->record;
  return row->ignored || !r || r->pilot == FLAG_PILOT_OWN || !strcmp(r->group, "output") ||
         !flag_words_have(r->commands, "train", 5);
}

static int take_base(pilot *p, int argc, char **argv) {
  p->base = calloc((size_t)argc + 2, sizeof *p->base);
  if (!p->base) return fail("out of memory");
  p->base[p->base_count++] = (char *)p->setup.kind->name;
  for (int i = argc > 0 && strncmp(argv[0], "--", 2) != 0; i < argc; i++) {
    char name[64];
    const bool is_flag = !strncmp(argv[i], "--", 2);
    const size_t length = is_flag ? strcspn(argv[i] + 2, "=") : 0;
    snprintf(name, sizeof name, "%.*s", (int)length, is_flag ? argv[i] + 2 : "");
    const option *row = is_flag ? options_find(&p->setup.options, name) : NULL;
    const bool follows = row && row->kind != OPTION_SWITCH && !argv[i][2 + length];
    const bool kept = !row || !is_own(row);
    if (kept) p->base[p->base_count++] = argv[i];
    if (follows && i + 1 < argc) {
      if (kept) p->base[p->base_count++] = argv[i + 1];
      i++;
    }
  }
  return STATUS_CONTINUE;
}

/* ---- what it is made of ---------------------------------------------------------------------- */

int64_t pilot_seed(const pilot *p, int run) {
  return p->setup.flags.seed + (p->flags.folds ? run / (int)p->flags.folds : run);
}

int pilot_fold(const pilot *p, int run) {
  return p->flags.folds ? run % (int)p->flags.folds + 1 : 1;
}

pilot_run *pilot_run_of(const pilot *p, int cell, int run) {
  return &p->runs[cell * p->runs_per_cell + run];
}

const char *pilot_unit(const pilot *p) {
  return p->setup.kind->classes ? "images" : "tokens";
}

const char *pilot_cell_name(const pilot *p, int cell, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (int axis = 0; axis < p->grid.axis_count && used < size; axis++)
    used += (size_t)snprintf(text + used, size - used, "%s%s %s", axis ? ", " : "",
                             p->grid.axes[axis].name, grid_setting_of(&p->grid, cell, axis)->label);
  return text;
}

/* One in `halving` cells of a rung goes on to the next rung, which has `halving` times as many
 * updates; the last rung is the end of the run. Rungs of less than one update are left out. */
static void make_rungs(pilot *p) {
  int64_t steps = p->setup.flags.steps, backwards[PILOT_MOST_RUNGS];
  p->rungs = 1;
  backwards[0] = 0;
  for (int64_t cells = p->grid.cells; p->flags.halving && cells > 1;
       cells = (cells + p->flags.halving - 1) / p->flags.halving) {
    steps /= p->flags.halving;
    if (steps < 1 || p->rungs == PILOT_MOST_RUNGS) break;
    backwards[p->rungs++] = steps;
  }
  for (int i = 0; i < p->rungs; i++) p->rung_steps[i] = backwards[p->rungs - 1 - i];
}

static int make_runs(pilot *p) {
  enum { MOST_RUNS = 100000 };
  const int64_t each = p->flags.seeds * (p->flags.folds ? p->flags.folds : 1);
  if (each * p->grid.cells > MOST_RUNS)
    return fail_usage("a pilot may have at most %d runs", (int)MOST_RUNS);
  p->runs_per_cell = (int)each;
  p->runs = calloc((size_t)(each * p->grid.cells), sizeof *p->runs);
  p->last_rung = calloc((size_t)p->grid.cells, sizeof *p->last_rung);
  make_rungs(p);
  return p->runs && p->last_rung ? STATUS_CONTINUE : fail("out of memory");
}

/* A pilot goes on by its whole command: its record has the settings, but not the command. */
static int check_resume(const pilot *p) {
  const options *o = &p->setup.options;
  const bool resumes = options_given(o, "resume") || options_given(o, "resume-or-start");
  if (!resumes || options_given(o, "data") || options_given(o, "images")) return STATUS_CONTINUE;
  return fail_usage("a pilot goes on without --resume: repeat the whole command that began it, "
                    "with its --data, --grid and --out, and it takes what %s has",
                    p->setup.flags.out);
}

/* What makes the grid is not for each run. */
static int check_file(const pilot *p) {
  const setup *s = &p->setup;
  const json_t *flags = json_object_get(s->recorded, "flags");
  for (int i = 0; i < s->options.count; i++) {
    const flag_record *r = s->options.rows[i].record;
    const bool own = r && (!strcmp(r->group, "pilot") || !strcmp(r->group, "output"));
    if (own && json_object_get(flags ? flags : s->recorded, r->name))
      return fail_usage("%s: %s belongs on the command line of accrue pilot", s->recorded_path,
                        r->name);
  }
  return STATUS_CONTINUE;
}

static int prepare(pilot *p, int argc, char **argv) {
  int status = setup_parse(&p->setup, "pilot", argc, argv, more_flags);
  p->flags = flags;
  if (status == STATUS_CONTINUE) status = check_file(p);
  if (status == STATUS_CONTINUE) status = check_resume(p);
  if (status == STATUS_CONTINUE)
    status = grid_make(&p->grid, &p->setup.options, &flags.grid, &flags.ablate);
  if (status == STATUS_CONTINUE) status = check_flags(p);
  if (status == STATUS_CONTINUE) status = run_outputs_check(&p->setup);
  if (status == STATUS_CONTINUE) status = take_base(p, argc, argv);
  if (status == STATUS_CONTINUE) status = make_runs(p);
  if (status == STATUS_CONTINUE && p->flags.svg) status = gnuplot_check(p->flags.svg);
  json_t *data = json_array();
  if (status == STATUS_CONTINUE) status = pilot_check_runs(p, data);
  if (status == STATUS_CONTINUE) status = run_folder_open(&p->folder, p->setup.flags.out);
  if (status == STATUS_CONTINUE) status = pilot_record_open(p, data);
  json_decref(data);
  return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Writes numbers first, so that a picture that fails does not lose them. */
static int put_results(const pilot *p) {
  int status = STATUS_CONTINUE;
  if (p->flags.json) status = pilot_json_put(p);
  else pilot_table_put(p);
  if (status == STATUS_CONTINUE && p->flags.svg) status = pilot_svg(p, p->flags.svg);
  return status == STATUS_CONTINUE ? STATUS_DONE : status;
}

static int make(pilot *p) {
  bool stopped;
  const int count = p->grid.cells * p->runs_per_cell;
  if (!p->setup.flags.quiet)
    say("%d run%s, %d plan%s", count, count == 1 ? "" : "s", p->cache.count,
        p->cache.count == 1 ? "" : "s");
  int status = pilot_make_runs(p, &stopped);
  if (status != STATUS_CONTINUE || !stopped)
    return status == STATUS_CONTINUE ? put_results(p) : status;
  if (!p->setup.flags.quiet) say("stopped; the same command resumes from %s", p->path);
  return p->signal ? 128 + p->signal : STATUS_DONE;
}

static void close_all(pilot *p) {
  run_folder_close(&p->folder);
  plan_cache_free(&p->cache);
  json_decref(p->settings);
  free(p->last_rung);
  free(p->runs);
  free(p->base);
  grid_free(&p->grid);
  setup_close(&p->setup);
}

int pilot_main(int argc, char **argv) {
  const help_form help = setup_wants_help(argc, argv);
  if (help) return setup_help("pilot", help);
  flags = (pilot_flags){.seeds = 1};
  pilot p = {.folder = {.lock = -1}, .began = progress_clock()};
  int status = prepare(&p, argc, argv);
  if (status == STATUS_CONTINUE) status = make(&p);
  close_all(&p);
  return status;
}
