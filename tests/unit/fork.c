/* A process that forks between two updates: parent and child go on alike, on the CPU, although the
 * child has none of the threads that computed before. */
#include "models.h"

#include <stdlib.h>
#include <sys/wait.h>
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(parent_and_child_go_on_alike)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
