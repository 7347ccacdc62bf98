/* The runs of a pilot, each as `accrue train` would make it. They use one device, and share a plan
 * if they differ only in what a plan does not depend on. */
#include "program/pilot.h"

#include "common/message.h"
#include "common/progress.h"
#include "program/fingerprint.h"
#include "program/good_state.h"
#include "program/run_owner.h"
#include "program/run_record.h"
#include "program/train_run.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- command lines --------------------------------------------------------------------------- */

enum { OWN_WORDS = 8 + GRID_MOST_AXES, WORD_BYTES = RUN_PATH_BYTES + 32 };

typedef struct command_line {
  char **words; /* the model's kind first */
  int count;
  char *own[OWN_WORDS]; /* the words that must be freed */
  int own_count;
} command_line;

static void add_word(command_line *c, const char *format, ...) {
  char *word = malloc(WORD_BYTES);
  if (!word) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(word, WORD_BYTES, format, arguments);
  va_end(arguments);
  c->words[c->count++] = c->own[c->own_count++] = word;
}

/* Whether a word is the flag that an axis sets. Then it is left out of the words that all runs
 * have, except for lists, which add up. */
static bool is_replaced(const pilot *p, int cell, const char *word) {
  const size_t length = strcspn(word, "=");
  for (int axis = 0; axis < p->grid.axis_count; axis++) {
    const grid_setting *s = grid_setting_of(&p->grid, cell, axis);
    const option *row = s->flag ? options_find(&p->setup.options, s->flag) : NULL;
    if (row && row->kind != OPTION_LIST && !strncmp(word, "--", 2) &&
        length == strlen(s->flag) + 2 && !memcmp(word + 2, s->flag, length - 2))
      return true;
  }
  return false;
}

static void add_settings(command_line *c, const pilot *p, int cell) {
  for (int axis = 0; axis < p->grid.axis_count; axis++) {
    const grid_setting *s = grid_setting_of(&p->grid, cell, axis);
    if (!s->flag || !s->value) continue;
    if (s->is_switch) add_word(c, "--%s", s->flag);
    else add_word(c, "--%s=%s", s->flag, s->value);
  }
}

/* Whether the word after a flag is its value. */
static bool has_value(const pilot *p, char **words, int at) {
  const option *row = options_find(&p->setup.options, words[at] + 2);
  return row && row->kind != OPTION_SWITCH && at + 1 < p->base_count;
}

/* NULL words: there is no memory. */
static command_line command_line_of(const pilot *p, int cell, int run) {
  command_line c = {.words = calloc((size_t)p->base_count + OWN_WORDS, sizeof *c.words)};
  if (!c.words) return c;
  for (int i = 0; i < p->base_count; i++)
    if (!is_replaced(p, cell, p->base[i])) c.words[c.count++] = p->base[i];
    else i += has_value(p, p->base, i);
  add_settings(&c, p, cell);
  add_word(&c, "--seed=%" PRId64, pilot_seed(p, run));
  if (p->flags.folds) add_word(&c, "--fold=%d/%d", pilot_fold(p, run), (int)p->flags.folds);
  return c;
}

static void command_line_free(command_line *c) {
  for (int i = 0; i < c->own_count; i++) free(c->own[i]);
  free(c->words);
}

/* ---- checking -------------------------------------------------------------------------------- */

/* Checks flags, and the seed against the policy. */
static int check_run(const pilot *p, int cell, int run) {
  setup s;
  command_line c = command_line_of(p, cell, run);
  if (!c.words) return fail("out of memory");
  int status = setup_parse(&s, "train", c.count, c.words, NULL);
  if (status == STATUS_CONTINUE) status = policy_check_batch(&s.policy, &s.flags);
  setup_close(&s);
  command_line_free(&c);
  return status;
}

/* Checks rates, and the names of parameters in groups, which need a trainer. */
static int check_trainer(const setup *s) {
  ac_trainer *trainer = NULL;
  const ac_status status = ac_trainer_create(&trainer, s->plan, &s->trainer);
  ac_trainer_free(trainer);
  return status == AC_OK ? STATUS_CONTINUE : fail_setup(status);
}

/* Checks data, plan, rates, groups and the policy, which are the same for all runs of a cell. */
static int check_cell(pilot *p, int cell, json_t *data) {
  char text[34];
  setup s;
  command_line c = command_line_of(p, cell, 0);
  if (!c.words) return fail("out of memory");
  const setup_words words = {.verb = "train", .argc = c.count, .argv = c.words};
  int status = setup_open(&s, &words, &p->cache, NULL);
  if (status == STATUS_CONTINUE) status = check_trainer(&s);
  if (status == STATUS_CONTINUE) status = fingerprint(&s.data, s.flags.rank, text);
  if (status == STATUS_CONTINUE && s.flags.init) {
    text[16] = '-';
    status = fingerprint_file(s.flags.init, text + 17);
  }
  if (status == STATUS_CONTINUE && json_array_append_new(data, json_string(text)) != 0)
    status = fail("out of memory");
  setup_close(&s);
  command_line_free(&c);
  return status;
}

int pilot_check_runs(pilot *p, json_t *data) {
  int status = STATUS_CONTINUE;
  for (int cell = 0; cell < p->grid.cells && status == STATUS_CONTINUE; cell++)
    for (int run = 0; run < p->runs_per_cell && status == STATUS_CONTINUE; run++)
      status = check_run(p, cell, run);
  for (int cell = 0; cell < p->grid.cells && status == STATUS_CONTINUE; cell++)
    status = check_cell(p, cell, data);
  return status;
}

/* ---- one run --------------------------------------------------------------------------------- */

static void folder_of(const pilot *p, int cell, int run, char path[RUN_PATH_BYTES]) {
  char name[32];
  snprintf(name, sizeof name, "run-%04d", cell * p->runs_per_cell + run + 1);
  run_folder_path(&p->folder, name, path);
}

static void add_places(command_line *c, const char *folder) {
  add_word(c, "--out=%s", folder);
  add_word(c, "--keep=1");
  add_word(c, "--resume-or-start");
}

/* Whether a folder is that of a run of this pilot: its record says so. A folder without anything of
 * a run may become one. */
static bool is_own_run(const pilot *p, const char *folder, int number, bool *empty) {
  char path[RUN_PATH_BYTES + 16];
  json_t *record;
  snprintf(path, sizeof path, "%s/run.json", folder);
  const bool was = message_silence(true);
  const bool read = run_record_read(&record, path) == STATUS_CONTINUE;
  message_silence(was);
  *empty = read && !record && !run_owner_finds(folder);
  const bool own = run_record_is_of(record, p->id, number);
  json_decref(record);
  return own;
}

/* Refuses runs that another pilot, or a user by hand, has made there. */
int pilot_check_folders(const pilot *p) {
  struct dirent *entry;
  int status = STATUS_CONTINUE;
  const char *found = run_owner_finds_but(p->folder.path, "pilot.json");
  if (found)
    return fail_usage("%s holds a run (%s), which is not a pilot's; give another folder with --out",
                      p->folder.path, found);
  DIR *directory = opendir(p->folder.path);
  while (directory && status == STATUS_CONTINUE && (entry = readdir(directory))) {
    int number = 0, end = 0;
    bool empty;
    char path[RUN_PATH_BYTES];
    if (sscanf(entry->d_name, "run-%4d%n", &number, &end) != 1 || end < 8) continue;
    number = atoi(entry->d_name + 4);
    snprintf(path, sizeof path, "%s/%.32s", p->folder.path, entry->d_name);
    if (!is_own_run(p, path, number, &empty) && !empty)
      status = fail_usage("%s is not a run of this pilot; give another folder with --out", path);
  }
  if (directory) closedir(directory);
  return status;
}

/* Removes what a run needs to be resumed, and its model, as a pilot is about numbers. Only of its
 * own runs. */
static void clean(const pilot *p, const char *path, int number) {
  static const char *const names[] = {
      "model.safetensors", "average.safetensors",       "diverged.safetensors", GOOD_STATE,
      "config.json",       "adapter_model.safetensors", "adapter_config.json"};
  char file[RUN_PATH_BYTES], id[RUN_ID_BYTES];
  run_folder folder = {.lock = -1};
  json_t *record;
  bool empty;
  if (!is_own_run(p, path, number, &empty)) return;
  snprintf(folder.path, sizeof folder.path, "%s", path);
  run_folder_path(&folder, "run.json", file);
  if (run_record_read(&record, file) != STATUS_CONTINUE) return;
  run_owner_id(&folder, record, id);
  json_decref(record);
  run_owner_remove_states(&folder, id);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    run_folder_path(&folder, names[i], file);
    unlink(file);
  }
}

static int keep_result(pilot *p, int cell, int run, const char *folder, const train_summary *s) {
  pilot_run *r = pilot_run_of(p, cell, run);
  pilot_result *result = &r->results[r->done];
  char metrics[RUN_PATH_BYTES + 16];
  snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", folder);
  int status = STATUS_CONTINUE;
  if (s->diverged)
    *result = (pilot_result){
        .diverged = true, .loss = (double)NAN, .accuracy = (double)NAN, .seconds = (double)NAN};
  else
    status = pilot_result_read(result, metrics, s->run, p->flags.target > 0 ? p->flags.target : -1,
                               s->tokens_per_sample ? s->tokens_per_sample : 1);
  if (status != STATUS_CONTINUE) return status;
  r->done++;
  return pilot_record_write(p);
}

static void tell(const pilot *p, int cell, int run) {
  char name[256], fold[32] = "";
  if (p->setup.flags.quiet) return;
  pilot_cell_name(p, cell, name, sizeof name);
  if (p->flags.folds)
    snprintf(fold, sizeof fold, ", fold %d of %d", pilot_fold(p, run), (int)p->flags.folds);
  say("run %d of %d: %s%sseed %" PRId64 "%s", cell * p->runs_per_cell + run + 1,
      p->grid.cells * p->runs_per_cell, name, *name ? ", " : "", pilot_seed(p, run), fold);
}

/* Of this start of the pilot. The limit belongs to no single run: a run that is resumed later has
 * another limit, or none. */
static double seconds_left(const pilot *p) {
  const double minutes = p->setup.flags.max_minutes;
  return minutes > 0 ? 60 * minutes - (progress_clock() - p->began) : (double)INFINITY;
}

/* The fingerprint of the data, which all runs of a cell share, unless each has another fold. */
static const char *data_of(const pilot *p, int cell) {
  const json_t *data = json_object_get(p->settings, "data");
  return p->flags.folds ? NULL : json_string_value(json_array_get(data, (size_t)cell));
}

static int train(pilot *p, int cell, int run, int rung, bool *stopped) {
  char folder[RUN_PATH_BYTES];
  train_summary summary;
  const double seconds = seconds_left(p);
  const train_wish wish = {.cache = &p->cache,
                           .pause_step = p->rung_steps[rung],
                           .pause_seconds = isinf(seconds) ? 0 : seconds,
                           .quiet = true,
                           .pilot = p->id,
                           .data = data_of(p, cell),
                           .pilot_run = cell * p->runs_per_cell + run + 1};
  if ((*stopped = seconds <= 0)) return STATUS_CONTINUE;
  command_line c = command_line_of(p, cell, run);
  if (!c.words) return fail("out of memory");
  folder_of(p, cell, run, folder);
  add_places(&c, folder);
  tell(p, cell, run);
  int status = train_run(c.count, c.words, &wish, &summary);
  command_line_free(&c);
  if (status != STATUS_DONE && !summary.diverged) return status;
  const bool over = (wish.pause_step && summary.steps >= wish.pause_step) || summary.out_of_tokens;
  if (summary.signal) p->signal = summary.signal;
  *stopped = summary.interrupted || (summary.paused && !over);
  if (*stopped) return STATUS_CONTINUE;
  status = keep_result(p, cell, run, folder, &summary);
  if (status == STATUS_CONTINUE && (rung == p->rungs - 1 || summary.diverged))
    clean(p, folder, wish.pilot_run);
  return status;
}

/* ---- rungs ----------------------------------------------------------------------------------- */

/* A run that has diverged is over; it counts as done in all rungs. */
static int train_cell(pilot *p, int cell, int rung, bool *stopped) {
  int status = STATUS_CONTINUE;
  for (int run = 0; run < p->runs_per_cell && status == STATUS_CONTINUE && !*stopped; run++) {
    const pilot_run *r = pilot_run_of(p, cell, run);
    if (r->done > rung || (r->done && r->results[r->done - 1].diverged)) continue;
    status = train(p, cell, run, rung, stopped);
  }
  return status;
}

typedef struct rank {
  int cell;
  double loss;
} rank;

static int by_loss(const void *a, const void *b) {
  const rank *x = a, *y = b;
  if (x->loss != y->loss) return x->loss < y->loss ? -1 : 1;
  return x->cell - y->cell;
}

/* Picks the cells of a rung that go on: those with the least mean loss. A cell with a run that
 * diverged comes after all others. */
static int halve(pilot *p, int rung) {
  rank *ranks = malloc((size_t)p->grid.cells * sizeof *ranks);
  int count = 0;
  if (!ranks) return fail("out of memory");
  for (int cell = 0; cell < p->grid.cells; cell++) {
    if (p->last_rung[cell] < rung) continue;
    const pilot_summary s = pilot_summary_of(p, cell, rung);
    ranks[count++] = (rank){cell, s.diverged ? (double)INFINITY : s.loss.mean};
  }
  qsort(ranks, (size_t)count, sizeof *ranks, by_loss);
  const int stay = (int)((count + p->flags.halving - 1) / p->flags.halving);
  for (int i = 0; i < count; i++) {
    if (i < stay) p->last_rung[ranks[i].cell] = rung + 1;
    for (int run = 0; run < p->runs_per_cell && i >= stay; run++) {
      char folder[RUN_PATH_BYTES];
      folder_of(p, ranks[i].cell, run, folder);
      clean(p, folder, ranks[i].cell * p->runs_per_cell + run + 1);
    }
  }
  free(ranks);
  return STATUS_CONTINUE;
}

int pilot_make_runs(pilot *p, bool *stopped) {
  int status = STATUS_CONTINUE;
  *stopped = false;
  for (int rung = 0; rung < p->rungs && status == STATUS_CONTINUE; rung++) {
    for (int cell = 0; cell < p->grid.cells && status == STATUS_CONTINUE && !*stopped; cell++)
      if (p->last_rung[cell] >= rung) status = train_cell(p, cell, rung, stopped);
    if (status != STATUS_CONTINUE || *stopped) break;
    if (rung + 1 < p->rungs) status = halve(p, rung);
  }
  return status;
}
