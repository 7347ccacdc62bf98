/* The predicted price of the exchange between ranks against the same exchange on a simulated
 * network, for several numbers of ranks and kinds of network; and the network as it is measured. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>

#include "ranks/engine.h"
#include "ranks/ranks.h"
#include "support/rank_threads.h"

enum { MOST = 8, FEATURES = 96, HIDDEN = 1500, WINDOWS = 3 };

typedef struct network_case {
  double bandwidth, latency; /* bytes per second, seconds */
} network_case;

typedef struct result {
  ac_status status;
  char sentence[1024];
  ac_rank_price price;
  double seconds; /* simulated, of a window */
  ac_transport_counts counts;
} result;

typedef struct job {
  network_case network;
  result results[MOST];
} job;

static ac_graph *perceptron(void) {
  ac_graph *graph;
  if (ac_graph_create(&graph) != AC_OK) return NULL;
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, FEATURES)),
            *first = ac_parameter(graph, "first", AC_SHAPE(HIDDEN, FEATURES), NULL),
            *second = ac_parameter(graph, "second", AC_SHAPE(FEATURES, HIDDEN), NULL),
            *hidden = ac_relu(ac_linear(x, first, NULL, AC_OUT_IN)),
            *y = ac_linear(hidden, second, NULL, AC_OUT_IN);
  ac_graph_set_loss(graph, ac_mean_squared_error(y, x, NULL));
  return graph;
}

static double now(ac_ranks *ranks) {
  ac_engine *engine = ac_transport_engine(ac_ranks_transport(ranks));
  return engine->functions->clock(engine);
}

static ac_status train(ac_ranks *ranks, ac_plan *plan, const ac_network *network, result *out) {
  static const float x[2 * FEATURES] = {1, 2, 3};
  const ac_trainer_desc desc = {.schedule = {.lr = 0.01}, .ranks = ranks};
  ac_trainer *trainer = NULL;
  ac_status status = ac_plan_price_ranks(plan, network, &out->price);
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &desc);
  const ac_transport_counts before = ac_transport_count(ac_ranks_transport(ranks));
  if (status == AC_OK) status = ac_ranks_barrier(ranks);
  const double begun = now(ranks);
  for (int i = 0; i < WINDOWS && status == AC_OK; i++) {
    const ac_feed feed = {"x", x};
    status = ac_trainer_accumulate(trainer, 1, &feed, 1);
    if (status == AC_OK) status = ac_trainer_update(trainer, NULL);
  }
  if (status == AC_OK) status = ac_ranks_barrier(ranks);
  out->seconds = (now(ranks) - begun) / WINDOWS;
  out->counts = ac_transport_count(ac_ranks_transport(ranks));
  out->counts.bytes -= before.bytes;
  out->counts.messages -= before.messages;
  ac_trainer_free(trainer);
  return status;
}

static void body(ac_ranks *ranks, int rank, void *user) {
  job *j = user;
  result *out = &j->results[rank];
  const int count = ac_ranks_size(ranks);
  const ac_plan_desc desc = {.batch = count, .micro_batch = 1, .ranks = count, .rank = rank};
  const ac_network network = {j->network.bandwidth, j->network.latency};
  ac_graph *graph = perceptron();
  ac_device *device = NULL;
  ac_plan *plan = NULL;
  out->status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (out->status == AC_OK) out->status = ac_plan_create(&plan, graph, device, &desc);
  if (out->status == AC_OK) out->status = train(ranks, plan, &network, out);
  if (out->status != AC_OK) {
    snprintf(out->sentence, sizeof out->sentence, "%s", ac_last_error());
    ac_ranks_abort(ranks, out->sentence);
  }
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  ac_ranks_close(ranks);
}

/* Simulated latencies vary at random, and a round ends with its slowest message; so networks here
 * have messages that take longer than they are on their way. Computing takes no simulated time, so
 * the host's part, a few percent here, is only predicted. */
static void the_price_is_that_of_the_simulation(void **state) {
  (void)state;
  static const network_case networks[] = {{1.25e8, 2e-5}, {2.5e8, 1e-5}, {2e7, 1e-4}};
  for (size_t n = 0; n < sizeof networks / sizeof *networks; n++)
    for (int count = 2; count <= MOST; count += count < 4 ? 1 : 4) {
      job j = {.network = networks[n]};
      ac_ranks *list[MOST];
      assert_ok(ac_ranks_create_threads(list, count,
                                        &(ac_ranks_threads_desc){.seed = 5,
                                                                 .bandwidth = networks[n].bandwidth,
                                                                 .latency = networks[n].latency}));
      run_rank_threads(list, count, body, &j);
      for (int r = 0; r < count; r++) {
        const result *x = &j.results[r];
        if (x->status != AC_OK) fail_msg("rank %d: %s", r, x->sentence);
        if (fabs(x->price.exchange_seconds - x->seconds) > 0.25 * x->seconds)
          fail_msg("%d ranks, network %zu: predicted %g s, simulated %g s", count, n,
                   x->price.exchange_seconds, x->seconds);
        const double sent = (double)x->counts.bytes / WINDOWS;
        if (fabs((double)x->price.bytes - sent) > 0.05 * sent)
          fail_msg("%d ranks: %llu bytes predicted, %g sent", count,
                   (unsigned long long)x->price.bytes, sent);
      }
    }
}

static void measure_body(ac_ranks *ranks, int rank, void *user) {
  ac_network *found = user;
  if (ac_ranks_measure(ranks, &found[rank]) != AC_OK) ac_ranks_abort(ranks, ac_last_error());
  (void)ac_ranks_barrier(ranks);
  ac_ranks_close(ranks);
}

static void a_simulated_network_is_measured(void **state) {
  (void)state;
  for (int count = 2; count <= 4; count++) {
    ac_network found[MOST] = {{0}};
    ac_ranks *list[MOST];
    assert_ok(ac_ranks_create_threads(
        list, count, &(ac_ranks_threads_desc){.seed = 9, .bandwidth = 2e8, .latency = 5e-5}));
    run_rank_threads(list, count, measure_body, found);
    for (int r = 0; r < count; r++) {
      assert_memory_equal(&found[r], &found[0], sizeof found[0]);
      /* A mean of 100 random latencies, a few of them ten times as long; and bandwidth without
       * what latency and barriers take. */
      assert_true(found[r].latency > 0.5 * 5e-5 && found[r].latency < 2 * 5e-5);
      assert_true(found[r].bandwidth > 0.7 * 2e8 && found[r].bandwidth <= 2e8);
    }
  }
  ac_ranks *one;
  ac_network network;
  assert_ok(ac_ranks_open(&one, &(ac_ranks_desc){.engine = "alone"}));
  assert_refused(ac_ranks_measure(one, &network), AC_ERROR_STATE, "no network with one rank");
  ac_ranks_close(one);
}

static void networks_are_checked(void **state) {
  (void)state;
  ac_device *device;
  ac_plan *plan;
  ac_rank_price price;
  ac_graph *graph = perceptron();
  const ac_plan_desc alone = {.batch = 4}, both = {.batch = 4, .ranks = 2};
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  assert_ok(ac_plan_create(&plan, graph, device, &alone));
  assert_ok(ac_plan_price_ranks(plan, &(ac_network){1e9, 1e-5}, &price));
  assert_true(price.exchange_seconds == 0 && price.bytes == 0 &&
              price.window_seconds == ac_plan_get_info(plan)->predicted_seconds);
  ac_plan_free(plan);
  assert_ok(ac_plan_create(&plan, graph, device, &both));
  assert_refused(ac_plan_price_ranks(plan, &(ac_network){0, 1e-5}, &price), AC_ERROR_ARGUMENT,
                 "bandwidth of a network must be positive");
  assert_refused(ac_plan_price_ranks(plan, &(ac_network){1e9, -1}, &price), AC_ERROR_ARGUMENT,
                 "latency not negative");
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
}

/* ---- what steps hide ------------------------------------------------------------------------- */

enum { LAYERS = 6, WIDE = 1024, BATCH = 1024 };

static ac_graph *deep(void) {
  static const char *const names[LAYERS] = {"a", "b", "c", "d", "e", "f"};
  ac_graph *graph;
  assert_ok(ac_graph_create(&graph));
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, WIDE)), *y = x;
  for (int i = 0; i < LAYERS; i++)
    y = ac_relu(
        ac_linear(y, ac_parameter(graph, names[i], AC_SHAPE(WIDE, WIDE), NULL), NULL, AC_OUT_IN));
  ac_graph_set_loss(graph, ac_mean_squared_error(y, x, NULL));
  return graph;
}

/* Gradients of all layers but the first are on their way while earlier ones are computed, weights
 * of all but the first while those before them are, and no longer than that takes. */
static void what_steps_hide_is_not_exposed(void **state) {
  (void)state;
  ac_device *device;
  ac_plan *plan;
  ac_graph *graph = deep();
  const ac_plan_desc desc = {.batch = 2 * BATCH, .micro_batch = BATCH, .ranks = 2};
  ac_rank_price fast, slow;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  assert_ok(ac_plan_price_ranks(plan, &(ac_network){2e9, 1e-5}, &fast));
  assert_ok(ac_plan_price_ranks(plan, &(ac_network){1e7, 1e-5}, &slow));
  const double hidden = fast.exchange_seconds - fast.exposed_seconds,
               at_most = slow.exchange_seconds - slow.exposed_seconds,
               computing = ac_plan_get_info(plan)->predicted_seconds;
  /* One layer of six is finished last, and read first. */
  assert_true(hidden > 0.7 * fast.exchange_seconds && hidden < 0.9 * fast.exchange_seconds);
  assert_true(at_most > 0 && at_most < computing && slow.exposed_seconds > hidden);
  assert_true(fabs(fast.window_seconds - computing - fast.exposed_seconds) <=
              1e-9 * fast.window_seconds);
  /* 8 bytes of each parameter; one of two ranks sends half of them. */
  const double parameters = (double)LAYERS * WIDE * WIDE;
  assert_true((double)fast.bytes >= 4 * parameters && (double)fast.bytes < 4.05 * parameters);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_price_is_that_of_the_simulation),
      cmocka_unit_test(a_simulated_network_is_measured),
      cmocka_unit_test(networks_are_checked),
      cmocka_unit_test(what_steps_hide_is_not_exposed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
