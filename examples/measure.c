/* Measuring a device: how many operations a second it can do at best, how long the ops of a plan
 * take, and how near to the best they come. Also a function of the program's own is timed in the
 * same way. The times are short, so the numbers are rough. */
#include <accrue/accrue.h>
#include <stdio.h>

enum { BATCH = 64, WIDTH = 128, MOST_OPS = 6 };

static ac_status describe(ac_graph *graph) {
  const ac_parameter_desc he = {.init = {.kind = AC_INIT_KAIMING_NORMAL}};
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, WIDTH)),
            *labels = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH)),
            *w1 = ac_parameter(graph, "first", AC_SHAPE(WIDTH, WIDTH), &he),
            *w2 = ac_parameter(graph, "last", AC_SHAPE(10, WIDTH), &he),
            *h = ac_relu(ac_linear(x, w1, NULL, AC_OUT_IN));
  ac_graph_set_loss(graph, ac_cross_entropy(ac_linear(h, w2, NULL, AC_OUT_IN), labels, NULL, NULL));
  return ac_graph_status(graph);
}

/* Short: a real measurement takes the defaults. */
static const ac_bench_desc quick = {
    .seconds = 0.1, .spread = 0.2, .samples = 5, .rounds = 1, .footprint = 1 << 20};

/* Time of each op, next to the least time that the roofs allow. */
static ac_status time_ops(ac_bench *bench, const ac_bench_roofs *roofs, int *timed) {
  static const char *const bounds[] = {"compute", "memory", "launch"};
  for (int i = 0; i < ac_bench_count(bench) && i < MOST_OPS; i++) {
    ac_bench_op op;
    ac_bench_timing timing;
    ac_bench_bound bound;
    ac_status status = ac_bench_get(bench, i, &op);
    if (status == AC_OK) status = ac_bench_time(bench, i, &timing);
    if (status != AC_OK) return status;
    const double least = ac_bench_limit(roofs, op.precision, op.flops, op.bytes, &bound);
    printf("  %-28s %-30s %s: %.1f us, at best %.1f us (%s)\n", op.op, op.shapes,
           ac_precision_name(op.precision), 1e6 * timing.median, 1e6 * least, bounds[bound]);
    *timed += timing.median > 0;
  }
  return AC_OK;
}

/* The ops of a plan, of a whole window of it, one product more, and all ops that there are. */
static ac_status ops_of_a_plan(ac_device *device, const ac_bench_roofs *roofs, int *timed) {
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_bench *bench = NULL, *window = NULL;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK)
    status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = BATCH});
  if (status == AC_OK) status = ac_bench_create(&bench, device, &quick);
  if (status == AC_OK) status = ac_bench_create(&window, device, &quick);
  if (status == AC_OK) status = ac_bench_add_product(bench, AC_PRECISION_F32, 100, 200, 300);
  if (status == AC_OK) status = ac_bench_add_plan(bench, plan);
  if (status == AC_OK) status = ac_bench_add_window(window, plan);
  if (status == AC_OK)
    printf("%d ops of a micro-batch and its update, %d of a window", ac_bench_count(bench) - 1,
           ac_bench_count(window));
  if (status == AC_OK) status = ac_bench_add_others(window, AC_PRECISION_F32);
  if (status == AC_OK) printf(", %d of all kinds\n", ac_bench_count(window));
  if (status == AC_OK) status = time_ops(bench, roofs, timed);
  ac_bench_free(window);
  ac_bench_free(bench);
  ac_plan_free(plan);
  ac_graph_free(graph);
  return status;
}

/* Something of the program's own, `runs` times. */
static ac_status sum_up(void *user, int64_t runs) {
  volatile double *sum = user;
  for (int64_t run = 0; run < runs; run++)
    for (int i = 1; i <= 1000; i++) *sum += 1.0 / i;
  return AC_OK;
}

/* Measured twice, at different times, and put together. */
static ac_status own_function(ac_bench_timing *timing) {
  double sum = 0;
  ac_bench_timing visits[2];
  ac_status status = AC_OK;
  for (int i = 0; i < 2 && status == AC_OK; i++)
    status = ac_bench_measure(&visits[i], &quick, sum_up, &sum);
  return status == AC_OK ? ac_bench_combine(timing, &quick, visits, 2) : status;
}

int main(void) {
  ac_device *device = NULL;
  ac_bench_roofs roofs = {.bytes = 0};
  ac_bench_timing own = {.median = 0};
  int timed = 0;
  ac_status status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK) status = ac_bench_measure_roofs(&roofs, device, &quick);
  if (status == AC_OK)
    printf("products: %.1f Gflop/s at %lld x %lld; copies: %.1f GB/s; an op begins in %.2f us\n",
           roofs.flops[AC_PRECISION_F32] / 1e9, (long long)roofs.size[AC_PRECISION_F32],
           (long long)roofs.size[AC_PRECISION_F32], roofs.bytes / 1e9, 1e6 * roofs.launch);
  if (status == AC_OK) status = ops_of_a_plan(device, &roofs, &timed);
  if (status == AC_OK) status = own_function(&own);
  /* Is the machine still as fast as before? */
  if (status == AC_OK) status = ac_bench_measure_copy(&roofs, device, &quick);
  if (status == AC_OK) printf("copies now: %.1f GB/s\n", roofs.bytes / 1e9);
  if (status == AC_OK)
    printf("1000 divisions: %.2f us, %d samples, spread %.0f %%\n", 1e6 * own.median, own.samples,
           100 * own.spread);
  else fprintf(stderr, "measure: %s\n", ac_last_error());
  ac_device_close(device);
  return status == AC_OK && timed == MOST_OPS && roofs.bytes > 0 && own.median > 0 ? 0 : 1;
}
