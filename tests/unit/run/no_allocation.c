/* Nothing is allocated while a trainer trains. This program's own malloc, calloc, realloc,
 * aligned_alloc, posix_memalign and mmap replace the C library's (also for calls from shared
 * libraries such as OpenBLAS and OpenMP) and count while a flag is set. */
#define _GNU_SOURCE      /* RTLD_NEXT */
#undef _FILE_OFFSET_BITS /* would turn mmap into mmap64, which nobody else calls */
#include "support/models.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

static atomic_long calls;
static atomic_bool counting;

static void count_call(void) {
  if (atomic_load(&counting)) atomic_fetch_add(&calls, 1);
}

/* glibc's own names for what is interposed, so that no look-up is needed before it works. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

__attribute__((visibility("default"))) void *malloc(size_t size) {
  count_call();
  return __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size) {
  count_call();
  return __libc_calloc(count, size);
}

__attribute__((visibility("default"))) void *realloc(void *old, size_t size) {
  count_call();
  return __libc_realloc(old, size);
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t size) {
  count_call();
  return __libc_memalign(alignment, size);
}

__attribute__((visibility("default"))) int posix_memalign(void **result, size_t alignment,
                                                          size_t size) {
  count_call();
  *result = __libc_memalign(alignment, size);
  return *result ? 0 : 12;
}

__attribute__((visibility("default"))) void *mmap(void *at, size_t length, int protection,
                                                  int flags, int file, off_t offset) {
  static void *(*next)(void *, size_t, int, int, int, off_t);
  count_call();
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "mmap");
  return next(at, length, protection, flags, file, offset);
}

typedef struct counter {
  int64_t steps;
  ac_device *device;
  ac_trainer *trainer;
  uint64_t objects;
} counter;

/* Looks at a gradient and writes it again. */
static void rewrite(ac_trainer *trainer) {
  float g[32];
  assert_ok(ac_trainer_get_mean_gradient(trainer, 0, 0, 32, g));
  assert_ok(ac_trainer_get_gradient(trainer, 0, 0, 32, g));
  assert_ok(ac_trainer_set_gradient(trainer, 0, 0, 32, g));
}

static bool on_event(void *user, const ac_fit_event *event) {
  counter *c = user;
  if (event->kind == AC_FIT_DECISION && event->step % 2) rewrite(c->trainer);
  if (event->kind != AC_FIT_STEP) return true;
  if (event->step == 2) {
    c->objects = ac_device_object_count(c->device);
    atomic_store(&calls, 0);
    atomic_store(&counting, true);
  }
  if (event->step == c->steps) atomic_store(&counting, false);
  return true;
}

static const char *own_step(void *user, const ac_parameter_step *s) {
  (void)user;
  for (int64_t i = 0; i < s->count; i++) s->weights[i] -= (float)s->rate * s->gradient[i];
  return NULL;
}

/* `own`: by an optimizer of the caller's. */
static void train(const char *name, bool own, long *allocations, uint64_t *objects) {
  test_gpt m = {2, 32, 16, 50, 2, 0.1f, false, true};
  ac_graph *graph = test_gpt_graph(&m);
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
  static int32_t tokens[40][16];
  for (int i = 0; i < 40; i++)
    for (int j = 0; j < 16; j++) tokens[i][j] = (i * 7 + j * 3) % 50;
  ac_dataset *dataset;
  ac_field fields[] = {{"tokens", AC_I32, 16}, {"targets", AC_I32, 16}, {"extra", AC_I32, 16}};
  const void *data[] = {tokens, tokens, tokens};
  assert_ok(ac_dataset_from_memory(&dataset, 40, 3, fields, data));
  const ac_plan_desc policy = {
      .batch = 7,
      .micro_batch = 3,
      .optimizer = {.kind = own ? AC_OPTIMIZER_CALLBACK : AC_ADAMW, .callback_states = own}};
  const ac_trainer_desc training = {.schedule = {.lr = 1e-3},
                                    .layers_every = 2,
                                    .noise_every = 1,
                                    .noise_layers = true,
                                    .spikes = {.policy = AC_SPIKE_SKIP},
                                    .optimizer = {.step = own ? own_step : NULL}};
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = name}));
  assert_ok(ac_plan_create(&plan, graph, device, &policy));
  assert_ok(ac_trainer_create(&trainer, plan, &training));
  counter c = {.steps = 30, .device = device, .trainer = trainer};
  /* Evaluation in between allocates nothing either; epochs end, so windows of all sizes
   * come up. */
  ac_fit_desc desc = {.train = dataset,
                      .validation = dataset,
                      .steps = c.steps,
                      .eval_every = 5,
                      .decisions = true,
                      .callback = on_event,
                      .user = &c};
  assert_ok(ac_fit(trainer, &desc, NULL));
  *allocations = atomic_load(&calls);
  *objects = ac_device_object_count(device) - c.objects;
  assert_int_equal(ac_device_peak_bytes(device), ac_plan_get_info(plan)->bytes.total);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_dataset_free(dataset);
  ac_graph_free(graph);
}

static void the_counter_counts(void **state) {
  (void)state;
  atomic_store(&calls, 0);
  atomic_store(&counting, true);
  void *volatile p = malloc(3);
  free(p);
  atomic_store(&counting, false);
  assert_int_equal(atomic_load(&calls), 1);
}

static void the_cpu_allocates_nothing(void **state) {
  (void)state;
  long allocations;
  uint64_t objects;
  for (int own = 0; own < 2; own++) {
    train("cpu", own, &allocations, &objects);
    assert_int_equal(allocations, 0);
    assert_int_equal(objects, 0);
  }
}

/* OpenCL drivers allocate on the host as they please; device memory is what counts. */
static void opencl_makes_no_memory_objects(void **state) {
  (void)state;
  ac_device_info list[8];
  int count;
  long allocations;
  uint64_t objects;
  assert_ok(ac_device_list(list, 8, &count));
  for (int i = 1; i < count && i < 8; i++) {
    for (int own = 0; own < 2; own++) {
      train(list[i].id, own, &allocations, &objects);
      assert_int_equal(objects, 0);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_counter_counts),
      cmocka_unit_test(the_cpu_allocates_nothing),
      cmocka_unit_test(opencl_makes_no_memory_objects),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
