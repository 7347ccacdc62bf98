/* The predicted price of an exchange between many ranks against the same exchange on a simulated
 * network. The device is the dry one, so ranks exchange all chunks of a model of any size, and
 * compute nothing.
 *
 *   test_rank_networks                               16 and 64 ranks with a small model
 *   test_rank_networks RANKS MODEL GBIT MICROSECONDS by hand: prints what was predicted and
 * simulated; MODEL is millions of parameters, or gpt2-124m
 *
 * By hand a rank takes up to 16 MiB, and 32 MiB from 1,024 ranks on. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/eight_bit.h"
#include "plan/plan.h"
#include "ranks/engine.h"
#include "ranks/ranks.h"
#include "support/rank_threads.h"
#include "window/trainer.h"

enum { MOST = 1024, WINDOWS = 2, WIDTH = 768, TOKENS = 51281, LAYERS = 12 };

typedef struct result {
  ac_status status;
  char sentence[1024];
  ac_rank_price price;
  double predicted; /* seconds of the network alone */
  double seconds;   /* simulated, of a window */
  double bytes;     /* sent in a window */
} result;

typedef struct job {
  ac_network network;
  double millions; /* of parameters; 0: as GPT-2 124M has them */
  result results[MOST];
} job;

static ac_tensor *layer(ac_graph *graph, ac_tensor *x, const char *name, int64_t in, int64_t out) {
  return ac_linear(x, ac_parameter(graph, name, AC_SHAPE(out, in), NULL), NULL, AC_OUT_IN);
}

/* Parameters in the sizes of GPT-2 124M: tokens and positions, and 12 layers of 12 * 768^2. */
static ac_tensor *add_gpt2(ac_graph *graph, ac_tensor *x) {
  char name[32];
  x = layer(graph, x, "tokens", TOKENS, WIDTH);
  for (int i = 0; i < 2 * LAYERS; i++) {
    const int64_t hidden = i % 2 ? 4 * WIDTH : 2 * WIDTH;
    snprintf(name, sizeof name, "%d.first", i);
    ac_tensor *inner = ac_relu(layer(graph, x, name, WIDTH, hidden));
    snprintf(name, sizeof name, "%d.second", i);
    x = ac_add(x, layer(graph, inner, name, hidden, WIDTH));
  }
  return x;
}

static ac_graph *model(double millions) {
  ac_graph *graph;
  if (ac_graph_create(&graph) != AC_OK) return NULL;
  const int64_t features = millions > 0 ? 256 : TOKENS;
  const int64_t hidden = (int64_t)(millions * 1e6 / 512);
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, features)),
            *t = ac_input(graph, "t", AC_F32, AC_SHAPE(AC_BATCH, millions > 0 ? 256 : WIDTH)), *y;
  if (millions > 0)
    y = layer(graph, ac_relu(layer(graph, x, "first", 256, hidden)), "second", hidden, 256);
  else y = add_gpt2(graph, x);
  ac_graph_set_loss(graph, ac_mean_squared_error(y, t, NULL));
  return graph;
}

static double now(ac_ranks *ranks) {
  ac_engine *engine = ac_transport_engine(ac_ranks_transport(ranks));
  return engine->functions->clock(engine);
}

/* The dry device counts no loss, so an update steps nothing and sends no weights. */
static ac_status run_windows(ac_ranks *ranks, ac_trainer *trainer, int64_t features) {
  float *x = calloc((size_t)features, sizeof *x);
  if (!x) return AC_ERROR_MEMORY;
  const ac_feed feeds[] = {{"x", x}, {"t", x}};
  ac_status status = AC_OK;
  for (int i = 0; i < WINDOWS && status == AC_OK; i++) {
    status = ac_trainer_accumulate(trainer, 1, feeds, 2);
    if (status == AC_OK) status = ac_trainer_update(trainer, NULL);
    if (status == AC_OK) status = ac_exchange_weights(trainer);
  }
  free(x);
  return status == AC_OK ? ac_ranks_barrier(ranks) : status;
}

static ac_status train(ac_ranks *ranks, ac_plan *plan, const job *j, result *out) {
  const ac_trainer_desc desc = {.schedule = {.lr = 0.01}, .ranks = ranks};
  ac_trainer *trainer = NULL;
  ac_rank_price host;
  ac_status status = ac_plan_price_ranks(plan, &j->network, &out->price);
  if (status == AC_OK) status = ac_plan_price_ranks(plan, &(ac_network){1e18, 0}, &host);
  out->predicted = out->price.exchange_seconds - host.exchange_seconds;
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &desc);
  const ac_transport_counts before = ac_transport_count(ac_ranks_transport(ranks));
  if (status == AC_OK) status = ac_ranks_barrier(ranks);
  const double begun = now(ranks);
  if (status == AC_OK) status = run_windows(ranks, trainer, j->millions > 0 ? 256 : TOKENS);
  out->seconds = (now(ranks) - begun) / WINDOWS;
  out->bytes =
      (double)(ac_transport_count(ac_ranks_transport(ranks)).bytes - before.bytes) / WINDOWS;
  ac_trainer_free(trainer);
  return status;
}

static void body(ac_ranks *ranks, int rank, void *user) {
  job *j = user;
  result *out = &j->results[rank];
  const int count = ac_ranks_size(ranks);
  const ac_plan_desc desc = {.batch = count, .micro_batch = 1, .ranks = count, .rank = rank};
  ac_graph *graph = model(j->millions);
  ac_device *device = NULL;
  ac_plan *plan = NULL;
  out->status = ac_device_open(&device, &(ac_device_desc){.name = "dry"});
  if (out->status == AC_OK) out->status = ac_plan_create(&plan, graph, device, &desc);
  if (out->status == AC_OK) out->status = train(ranks, plan, j, out);
  if (out->status != AC_OK) {
    snprintf(out->sentence, sizeof out->sentence, "%s", ac_last_error());
    ac_ranks_abort(ranks, out->sentence);
  }
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  ac_ranks_close(ranks);
}

/* The host copies and adds in no simulated time, so its part of the price is left out. Latencies do
 * not vary, because a round ends with its slowest message. */
static const result *simulate(job *j, int count) {
  static ac_ranks *list[MOST];
  assert_ok(ac_ranks_create_threads(list, count,
                                    &(ac_ranks_threads_desc){.seed = 5,
                                                             .steady = true,
                                                             .timeout = 1e6,
                                                             .bandwidth = j->network.bandwidth,
                                                             .latency = j->network.latency}));
  run_rank_threads(list, count, body, j);
  for (int r = 0; r < count; r++)
    if (j->results[r].status != AC_OK) fail_msg("rank %d: %s", r, j->results[r].sentence);
  return &j->results[0];
}

static void print(const job *j, int count, const result *r) {
  printf(
      "%5d ranks  %6.3g Gbit/s  %6.3g us  predicted %8.4g s  simulated %8.4g s  %5.2f  %.1f MB\n",
      count, 8e-9 * j->network.bandwidth, 1e6 * j->network.latency, r->predicted, r->seconds,
      r->predicted / r->seconds, 1e-6 * r->bytes);
}

static void the_price_of_many_ranks_is_that_of_the_simulation(void **state) {
  (void)state;
  static const struct {
    int ranks;
    double millions;
    ac_network network;
  } cases[] = {{16, 1, {1.25e8, 1e-4}}, {16, 0.5, {2.5e7, 5e-3}}, {64, 0.25, {1.25e8, 2e-5}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    static job j;
    j = (job){.network = cases[i].network, .millions = cases[i].millions};
    const int count = cases[i].ranks;
    const result *r = simulate(&j, count);
    print(&j, count, r);
    if (fabs(r->predicted - r->seconds) > 0.25 * r->seconds)
      fail_msg("case %zu: predicted %g s, simulated %g s", i, r->predicted, r->seconds);
    for (int rank = 0; rank < count; rank++) {
      const result *one = &j.results[rank];
      if (fabs((double)one->price.bytes - one->bytes) > 0.05 * one->bytes)
        fail_msg("case %zu, rank %d: %llu bytes predicted, %g sent", i, rank,
                 (unsigned long long)one->price.bytes, one->bytes);
    }
  }
}

/* ---- shares ---------------------------------------------------------------------------------- */

/* A round ends with its largest chunk. Gradients here have less than a block for each rank. */
static void small_gradients_are_dealt_to_all_ranks(void **state) {
  (void)state;
  enum { PARAMETERS = 96, SIZE = 12 * AC_EIGHT_BIT_BLOCK, RANKS = 256 };
  ac_graph *graph;
  ac_device *device;
  ac_plan *plan;
  assert_ok(ac_graph_create(&graph));
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, SIZE)), *y = x;
  for (int i = 0; i < PARAMETERS; i++) {
    char name[32];
    snprintf(name, sizeof name, "%d", i);
    y = ac_add(y, ac_parameter(graph, name, AC_SHAPE(SIZE), NULL));
  }
  ac_graph_set_loss(graph, ac_mean_squared_error(y, x, NULL));
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  assert_ok(ac_plan_create(&plan, graph, device,
                           &(ac_plan_desc){.batch = RANKS, .micro_batch = 1, .ranks = RANKS}));
  const int64_t mean = (int64_t)PARAMETERS * SIZE / RANKS, *bounds = plan->problem.bounds;
  assert_int_equal(bounds[RANKS], (int64_t)PARAMETERS * SIZE);
  for (int r = 0; r < RANKS; r++) {
    const int64_t own = bounds[r + 1] - bounds[r];
    if (llabs(own - mean) > AC_EIGHT_BIT_BLOCK)
      fail_msg("rank %d has %lld elements, the mean is %lld", r, (long long)own, (long long)mean);
  }
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
}

/* ---- by hand --------------------------------------------------------------------------------- */

static int compare(char **argv) {
  static job j;
  j = (job){.network = {atof(argv[2]) * 1.25e8, atof(argv[3]) * 1e-6}, .millions = atof(argv[1])};
  const int count = atoi(argv[0]);
  if (count < 2 || count > MOST || !(j.network.bandwidth > 0)) return 1;
  print(&j, count, simulate(&j, count));
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 4) return compare(argv + 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_price_of_many_ranks_is_that_of_the_simulation),
      cmocka_unit_test(small_gradients_are_dealt_to_all_ranks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
