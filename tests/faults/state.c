/* State files where the disk or memory fails: a state is saved over an older one, and loaded into a
 * trainer that has gone on, with the first, the second, ... call failing until all pass. What
 * is at the path is always the old state or the new one, byte by byte. A state file holds all
 * that a trainer is, so whether a trainer has changed is seen from the state that it saves. */
#include "support/files.h"

#include "faults.h"
#include "window/trainer.h"
#include "support/runs.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

typedef struct bytes {
  unsigned char *data;
  size_t size;
} bytes;

static corpus data;
static run r;
static ac_dataset *dataset;
static test_path path, scratch;
static bytes old_state, new_state, in_window; /* the last with a window in progress */

static const struct {
  const char *name;
  int error, least; /* calls that make saving fail */
} kinds[] = {{"EIO", EIO, 6}, {"ENOSPC", ENOSPC, 6}, {"EINTR", EINTR, 4}, {"short", ENOSPC, 0}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bytes contents(const char *from) {
  bytes b;
  b.data = read_file(from, &b.size);
  return b;
}

static bool holds(const char *file, const bytes *expected) {
  bytes b = contents(file);
  const bool same = b.size == expected->size && !memcmp(b.data, expected->data, b.size);
  free(b.data);
  return same;
}

static bool trainer_is(const bytes *state) {
  assert_ok(ac_trainer_save_state(r.trainer, scratch.text, NULL, 0));
  const bool same = holds(scratch.text, state);
  unlink(scratch.text);
  return same;
}

/* Removes all files in the folder but the state, and returns their number. */
static int remove_others(void) {
  int count = 0;
  DIR *directory = opendir(test_folder);
  for (struct dirent *entry; (entry = readdir(directory));) {
    const test_path other = in_folder(entry->d_name);
    if (entry->d_name[0] == '.' || !strcmp(other.text, path.text)) continue;
    unlink(other.text);
    count++;
  }
  closedir(directory);
  return count;
}

typedef struct fault {
  char text[40];
} fault;

static fault file_fault(int call, const char *kind) {
  fault f;
  snprintf(f.text, sizeof f.text, "file:%d:%s", call, kind);
  return f;
}

/* ---- saving ---------------------------------------------------------------------------------- */

static ac_status save(void) {
  return ac_trainer_save_state(r.trainer, path.text, NULL, 0);
}

static ac_status save_with(const char *text) {
  write_file(path.text, old_state.data, old_state.size);
  assert_true(faults_arm(text, NULL));
  const ac_status status = save();
  faults_pause(true);
  return status;
}

static void check_saved(const char *text, ac_status status, const char *cause) {
  const bytes *expected = status == AC_OK ? &new_state : &old_state;
  if (!holds(path.text, expected))
    fail_msg("%s: %s, and the file is not the %s one", text, ac_status_name(status),
             status == AC_OK ? "new" : "old");
  if (remove_others()) fail_msg("%s: a file remains", text);
  if (status == AC_OK) return;
  assert_contains(ac_last_error(), path.text);
  if (cause) assert_contains(ac_last_error(), cause);
  assert_null(strchr(ac_last_error(), '\n'));
}

static void saving_keeps_the_old_state_or_the_new(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    int refused = 0;
    for (int k = 1;; k++) {
      const fault f = file_fault(k, kinds[kind].name);
      const ac_status status = save_with(f.text);
      if (faults_calls() < k) break;
      check_saved(f.text, status, strerror(kinds[kind].error));
      refused += status != AC_OK;
    }
    /* What writes a part of it goes on, and what was interrupted tries again. */
    assert_in_range(refused, kinds[kind].least, faults_calls());
    check_saved("no fault", save(), NULL);
  }
}

static void saving_without_memory_keeps_the_old_state(void **state) {
  (void)state;
  int refused = 0;
  for (int k = 1;; k++) {
    fault f;
    snprintf(f.text, sizeof f.text, "memory:%d", k);
    const ac_status status = save_with(f.text);
    if (!faults_failed()) break;
    check_saved(f.text, status, NULL);
    if (status != AC_OK) assert_int_equal(status, AC_ERROR_MEMORY);
    refused += status != AC_OK;
  }
  assert_true(refused >= 5);
}

/* Whether the child was killed before it had saved. */
static bool killed_while_saving(const char *text) {
  int status;
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    faults_arm(text, NULL);
    _exit(save() == AC_OK ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) return true;
  assert_int_equal(status, 0);
  return false;
}

static void check_killed(const char *kind) {
  int k = 1, news = 0;
  for (bool killed = true; killed; k++) {
    const fault f = file_fault(k, kind);
    write_file(path.text, old_state.data, old_state.size);
    killed = killed_while_saving(f.text);
    const bool is_new = holds(path.text, &new_state);
    if (!is_new && (!killed || !holds(path.text, &old_state)))
      fail_msg("%s: the file is neither state", f.text);
    news += killed && is_new;
    if (remove_others() > 1) fail_msg("%s: more than one file remains", f.text);
    check_saved("the next one", save(), NULL);
  }
  assert_in_range(news, 1, 5); /* once it is in its place, only the folder is synced */
  assert_true(k > 8);
}

static void a_killed_process_leaves_the_old_state_or_the_new(void **state) {
  (void)state;
  check_killed("crash");
}

/* The new state is on disk before it takes the old one's place. */
static void a_loss_of_power_leaves_the_old_state_or_the_new(void **state) {
  (void)state;
  check_killed("power");
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Unarmed, from whatever state. */
static void bring_back(const bytes *state) {
  write_file(scratch.text, state->data, state->size);
  assert_ok(ac_trainer_load_state(r.trainer, scratch.text));
  unlink(scratch.text);
}

/* Of no use, and every function that computes or saves says so. */
static bool is_useless(void) {
  ac_evaluation evaluation;
  if (ac_trainer_save_state(r.trainer, scratch.text, NULL, 0) == AC_OK) return false;
  ac_trainer_discard(r.trainer);
  assert_refused(feed(&r, &data, 0, 1), AC_ERROR_STATE, "load");
  assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_STATE, "load");
  assert_refused(ac_trainer_save_state(r.trainer, scratch.text, NULL, 0), AC_ERROR_STATE, "load");
  assert_refused(ac_trainer_save(r.trainer, scratch.text, NULL, 0), AC_ERROR_STATE, "load");
  assert_refused(ac_trainer_evaluate(r.trainer, dataset, 0, &evaluation), AC_ERROR_STATE, "load");
  return true;
}

/* Returns whether there was a k-th call; *useless: how often the trainer was of no use after it. */
static bool load_with(const char *text, int k, int *useless) {
  bring_back(&in_window);
  assert_true(faults_arm(text, NULL));
  const ac_status status = ac_trainer_load_state(r.trainer, path.text);
  faults_pause(true);
  const bool met = faults_calls() >= k;
  if (status != AC_OK) {
    assert_true(faults_failed());
    assert_null(strchr(ac_last_error(), '\n'));
    assert_contains(ac_last_error(), status == AC_ERROR_MEMORY ? "memory" : path.text);
    if (is_useless()) ++*useless;
    else if (!trainer_is(&in_window)) fail_msg("%s: the trainer has changed", text);
    assert_ok(ac_trainer_load_state(r.trainer, path.text));
  }
  if (!trainer_is(&new_state)) fail_msg("%s: it was not loaded whole", text);
  return met;
}

/* As many calls verify the file as read it then, but for its header. */
static void loading_is_whole_or_says_so(void **state) {
  (void)state;
  write_file(path.text, new_state.data, new_state.size);
  static const char *const reading[] = {"EIO", "short"};
  for (int kind = 0; kind < 2; kind++) {
    int useless = 0, k = 1;
    while (load_with(file_fault(k, reading[kind]).text, k, &useless)) k++;
    assert_in_range(useless, r.trainer->instance.plan->graph->parameter_count, k - 10);
  }
}

static void loading_without_memory_changes_nothing(void **state) {
  (void)state;
  write_file(path.text, new_state.data, new_state.size);
  int useless = 0, k = 1;
  for (fault f;; k++) {
    snprintf(f.text, sizeof f.text, "memory:%d", k);
    if (!load_with(f.text, k, &useless)) break;
  }
  assert_int_equal(useless, 0);
  assert_true(k > 5);
}

/* ---- model files ----------------------------------------------------------------------------- */

/* A model is loaded whole, or nothing has changed, or the trainer is of no use. */
static void models_are_loaded_whole_or_say_so(void **state) {
  (void)state;
  const test_path model_file = in_folder("model.safetensors");
  bring_back(&new_state);
  assert_ok(ac_trainer_save(r.trainer, model_file.text, NULL, 0));
  int useless = 0;
  for (int k = 1;; k++) {
    bring_back(&old_state);
    faults_arm(file_fault(k, "EIO").text, NULL);
    const ac_status status = ac_trainer_load(r.trainer, model_file.text, NULL);
    faults_pause(true);
    if (!faults_failed()) break;
    if (status == AC_OK) continue;
    assert_contains(ac_last_error(), model_file.text);
    if (!is_useless()) {
      if (!trainer_is(&old_state)) fail_msg("call %d: the trainer has changed", k);
      continue;
    }
    useless++;
    assert_ok(ac_trainer_load(r.trainer, model_file.text, NULL));
    assert_false(is_useless());
  }
  unlink(model_file.text);
  assert_in_range(useless, 5, 1000);
}

/* ---- all ------------------------------------------------------------------------------------- */

static void train_window(int begin) {
  assert_ok(feed(&r, &data, begin, 5));
  assert_ok(ac_trainer_update(r.trainer, NULL));
}

static bytes saved_as(const char *name) {
  const test_path file = in_folder(name);
  assert_ok(ac_trainer_save_state(r.trainer, file.text, NULL, 0));
  const bytes b = contents(file.text);
  unlink(file.text);
  return b;
}

/* 16-bit storage under a loss scale: more to save than in f32. The trainer has the new state. */
static int begin_all(void **state) {
  if (make_test_folder(state) != 0) return -1;
  path = in_folder("state.safetensors");
  scratch = in_folder("scratch.safetensors");
  data = make_corpus();
  const ac_field fields[] = {
      {"tokens", AC_I32, CONTEXT}, {"targets", AC_I32, CONTEXT}, {"weights", AC_F32, CONTEXT}};
  const void *const columns[] = {data.tokens, data.targets, data.weights};
  assert_ok(ac_dataset_from_memory(&dataset, 4, 3, fields, columns));
  const ac_plan_desc plan = {.batch = 5, .micro_batch = 3, .precision = AC_PRECISION_F16};
  r = start("cpu", &model, plan, (ac_trainer_desc){.seed = 4});
  train_window(0);
  old_state = saved_as("old");
  train_window(5);
  assert_ok(feed(&r, &data, 10, 2));
  in_window = saved_as("in_window");
  ac_trainer_discard(r.trainer);
  train_window(10);
  new_state = saved_as("new");
  return 0;
}

static int end_all(void **state) {
  stop(&r);
  ac_dataset_free(dataset);
  free(old_state.data);
  free(new_state.data);
  free(in_window.data);
  return remove_test_folder(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(saving_keeps_the_old_state_or_the_new),
      cmocka_unit_test(saving_without_memory_keeps_the_old_state),
      cmocka_unit_test(a_killed_process_leaves_the_old_state_or_the_new),
      cmocka_unit_test(a_loss_of_power_leaves_the_old_state_or_the_new),
      cmocka_unit_test(loading_is_whole_or_says_so),
      cmocka_unit_test(loading_without_memory_changes_nothing),
      cmocka_unit_test(models_are_loaded_whole_or_say_so),
  };
  return cmocka_run_group_tests(tests, begin_all, end_all);
}
