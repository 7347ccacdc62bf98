/* Accrue in a program that has its own memory and threads: two threads train two models at the same
 * time, each on a device of its own. All tensors come from a pool that the program owns, and
 * messages go to its log. Errors are handled where they happen. */
#include <accrue/accrue.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 128, UPDATES = 200, POOL = 1 << 20 };

/* ---- memory ------------------------------------------------------------------------------------
 */

/* A pool of fixed size, from which pieces are taken one after another. One for each thread, so it
 * needs no lock. */
typedef struct pool {
  unsigned char bytes[POOL];
  size_t used, held;
} pool;

static void *take(void *user, size_t bytes, size_t alignment) {
  pool *p = user;
  const size_t over = (size_t)(p->bytes + p->used) % alignment, gap = over ? alignment - over : 0;
  if (gap > POOL - p->used || bytes > POOL - p->used - gap) return NULL; /* the caller fails */
  unsigned char *memory = p->bytes + p->used + gap;
  p->used += gap + bytes;
  p->held += bytes;
  return memory;
}

/* The pool starts again once everything was given back. */
static void give_back(void *user, void *memory, size_t bytes) {
  pool *p = user;
  (void)memory;
  p->held -= bytes;
  if (p->held == 0) p->used = 0;
}

/* ---- one model ---------------------------------------------------------------------------------
 */

typedef struct job {
  pool pool;
  const char *name;
  float slope, learned;
  uint64_t most; /* bytes of tensors */
  ac_status status;
  char message[256];
} job;

/* The library calls this in the thread of the job. */
static void log_line(void *user, ac_log_level level, const char *line) {
  const job *j = user;
  if (level >= AC_LOG_WARNING) fprintf(stderr, "%s: %s\n", j->name, line);
}

static ac_status describe(ac_graph *graph) {
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *y = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *w = ac_parameter(graph, "weight", AC_SHAPE(1, 1), NULL);
  ac_graph_set_loss(graph, ac_mean_squared_error(ac_linear(x, w, NULL, AC_OUT_IN), y, NULL));
  return ac_graph_status(graph);
}

static ac_status learn(ac_trainer *trainer, job *j) {
  float x[POINTS], y[POINTS];
  const ac_feed feeds[] = {{"x", x}, {"y", y}};
  for (int i = 0; i < POINTS; i++) {
    x[i] = (float)i / POINTS;
    y[i] = j->slope * x[i];
  }
  for (int update = 0; update < UPDATES; update++) {
    ac_status status = ac_trainer_accumulate(trainer, POINTS, feeds, 2);
    if (status == AC_OK) status = ac_trainer_update(trainer, NULL);
    if (status != AC_OK) return status;
  }
  return ac_trainer_get_parameter(trainer, 0, 0, 1, &j->learned);
}

/* One thread computes for each device: the program decides how many cores are used in all. */
static void *run(void *user) {
  job *j = user;
  const ac_allocator own = {take, give_back, &j->pool};
  const ac_device_desc cpu = {
      .name = "cpu", .threads = 1, .allocator = &own, .log = log_line, .log_user = j};
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  j->status = ac_graph_create(&graph);
  if (j->status == AC_OK) j->status = describe(graph);
  if (j->status == AC_OK) j->status = ac_device_open(&device, &cpu);
  if (j->status == AC_OK)
    j->status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = POINTS});
  if (j->status == AC_OK)
    j->status = ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.schedule = {.lr = 0.05}});
  if (j->status == AC_OK) j->status = learn(trainer, j);
  /* The last error belongs to this thread, in which the call failed: copy it here. */
  if (j->status != AC_OK) snprintf(j->message, sizeof j->message, "%s", ac_last_error());
  if (device) j->most = ac_device_peak_bytes(device);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  return NULL;
}

/* What a program does with an error: a name for its own logs, a sentence for people. The device
 * "dry" computes nothing, and plans for it cost little. */
static bool fails_well(void) {
  const ac_plan_desc policy = {.batch = POINTS, .memory = 100}; /* bytes: too few */
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = ac_device_open(&device, &(ac_device_desc){.name = "dry"});
  if (status == AC_OK) status = ac_plan_create(&plan, graph, device, &policy);
  printf("%s (%s): %s\n", ac_status_name(status), ac_status_text(status), ac_last_error());
  ac_plan_free(plan); /* NULL: nothing happens */
  ac_device_close(device);
  ac_graph_free(graph);
  return status == AC_ERROR_BUDGET && plan == NULL;
}

int main(void) {
  static job jobs[2] = {{.name = "first", .slope = 3}, {.name = "second", .slope = -2}};
  pthread_t threads[2];
  int started = 0;
  bool good = fails_well();
  for (; started < 2; started++)
    if (pthread_create(&threads[started], NULL, run, &jobs[started]) != 0) break;
  for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; i++) {
    const job *j = &jobs[i];
    if (i >= started || j->status != AC_OK) {
      fprintf(stderr, "embed: %s: %s\n", j->name, i < started ? j->message : "no thread");
      good = false;
      continue;
    }
    printf("%s: learned %.3f, at most %llu bytes of the pool, %zu are held now\n", j->name,
           (double)j->learned, (unsigned long long)j->most, j->pool.held);
    good = good && j->learned / j->slope > 0.98f && j->learned / j->slope < 1.02f &&
           j->pool.held == 0 && j->most > 0;
  }
  return good ? 0 : 1;
}
