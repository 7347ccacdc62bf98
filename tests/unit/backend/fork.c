/* A process forks between two updates: parent and child continue alike, on the CPU, although the
 * child has none of the threads that computed before. */
#include "support/models.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Large enough for products and loops to be shared out among threads. */
static const test_gpt model = {
    .layers = 1, .width = 64, .context = 32, .vocab = 32, .heads = 2, .dropout = 0.1f};
enum { BATCH = 8, CONTEXT = 32, MOST = 1 << 16 };

static void update(ac_trainer *trainer) {
  static int32_t tokens[BATCH * CONTEXT], targets[BATCH * CONTEXT];
  for (int i = 0; i < BATCH * CONTEXT; i++) tokens[i] = i * 7 % 32, targets[i] = i * 5 % 32;
  const ac_feed feeds[] = {{"tokens", tokens}, {"targets", targets}};
  assert_ok(ac_trainer_accumulate(trainer, BATCH, feeds, 2));
  assert_ok(ac_trainer_update(trainer, NULL));
}

/* All parameters, one after another. */
static size_t read_all(ac_trainer *trainer, float *data) {
  size_t count = 0;
  for (int i = 0; i < ac_trainer_parameter_count(trainer); i++) {
    ac_tensor_info info;
    int64_t elements = 1;
    assert_ok(ac_trainer_parameter_info(trainer, i, &info));
    for (int k = 0; k < info.rank; k++) elements *= info.shape[k];
    assert_true(count + (size_t)elements <= MOST);
    assert_ok(ac_trainer_get_parameter(trainer, i, 0, elements, data + count));
    count += (size_t)elements;
  }
  return count;
}

/* A child that waits for threads that it does not have ends by the alarm. */
static void go_on_in_child(ac_trainer *trainer, int to, float *data) {
  alarm(60);
  update(trainer);
  size_t bytes = read_all(trainer, data) * sizeof *data;
  const char *from = (const char *)data;
  while (bytes) {
    ssize_t written = write(to, from, bytes);
    if (written <= 0) _exit(1);
    from += written, bytes -= (size_t)written;
  }
  _exit(0);
}

static void parent_and_child_go_on_alike(void **state) {
  (void)state;
  static float own[MOST], childs[MOST];
  ac_graph *graph = test_gpt_graph(&model);
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 3}));
  assert_ok(ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = BATCH}));
  assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.seed = 1}));
  update(trainer);
  int channel[2];
  assert_int_equal(pipe(channel), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) go_on_in_child(trainer, channel[1], childs);
  close(channel[1]);
  size_t got = 0;
  for (ssize_t n; (n = read(channel[0], (char *)childs + got, sizeof childs - got)) > 0;)
    got += (size_t)n;
  close(channel[0]);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  update(trainer);
  assert_int_equal(read_all(trainer, own) * sizeof *own, got);
  assert_memory_equal(own, childs, got);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
}

/* ---- within a fit that reads ahead ----------------------------------------------------------- */

static ac_status read_tokens(void *user, const ac_sample_key *key, void *const *fields) {
  (void)user;
  const struct timespec wait = {.tv_nsec = 2000000}; /* so that threads read at the fork */
  nanosleep(&wait, NULL);
  for (int i = 0; i < CONTEXT; i++) {
    ((int32_t *)fields[0])[i] = (int32_t)((key->index + i) * 7 % 32);
    ((int32_t *)fields[1])[i] = (int32_t)((key->index + i) * 5 % 32);
  }
  return AC_OK;
}

static pid_t forked;

/* The child goes on with the fit, if it can. */
static bool fork_once(void *user, const ac_fit_event *event) {
  (void)user;
  if (event->kind != AC_FIT_STEP || event->step != 2) return true;
  forked = fork();
  if (forked == 0) alarm(30);
  return forked >= 0;
}

static void a_child_cannot_go_on_with_a_fit(void **state) {
  (void)state;
  ac_graph *graph = test_gpt_graph(&model);
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
  ac_dataset *dataset;
  const ac_callback_dataset_desc samples = {
      .count = 64,
      .field_count = 2,
      .fields = {{"tokens", AC_I32, CONTEXT}, {"targets", AC_I32, CONTEXT}},
      .read = read_tokens};
  const ac_plan_desc policy = {.batch = BATCH, .read_ahead = 2};
  assert_ok(ac_dataset_from_callback(&dataset, &samples));
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 2}));
  assert_ok(ac_plan_create(&plan, graph, device, &policy));
  for (int threads = 1; threads <= 4; threads *= 2) {
    assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.seed = 1}));
    const ac_fit_desc fit = {
        .train = dataset, .steps = 6, .loader_threads = threads, .callback = fork_once};
    ac_fit_result result;
    forked = -1;
    const ac_status status = ac_fit(trainer, &fit, &result);
    if (forked == 0)
      _exit(status == AC_ERROR_STATE && strstr(ac_last_error(), "forked") && result.steps == 2 ? 0
                                                                                               : 1);
    assert_ok(status);
    assert_int_equal(result.steps, 6);
    int ended;
    assert_int_equal(waitpid(forked, &ended, 0), forked);
    assert_int_equal(ended, 0);
    ac_trainer_free(trainer);
  }
  ac_dataset_free(dataset);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(parent_and_child_go_on_alike),
                                     cmocka_unit_test(a_child_cannot_go_on_with_a_fit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
