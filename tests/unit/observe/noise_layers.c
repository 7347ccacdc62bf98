/* The noise of each parameter's gradient: against exact values on a quadratic, as parts of the
 * whole, and as part of states. */
#include "support/states.h"

#include "support/noisy_points.h"

/* ---- a quadratic ----------------------------------------------------------------------------- */

enum { FIRST_PART = 24 };

/* That of noisy_points.h, with its elements in two parameters. */
static ac_graph *two_parts(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  const ac_parameter_desc desc = {.init = {AC_INIT_CONSTANT, .value = 0.5f}};
  ac_tensor *one = ac_input(g, "one", AC_F32, SHAPE(AC_BATCH, 1)),
            *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, POINT_SIZE)),
            *a = ac_parameter(g, "a", SHAPE(FIRST_PART, 1), &desc),
            *b = ac_parameter(g, "b", SHAPE(POINT_SIZE - FIRST_PART, 1), &desc);
  ac_tensor *parts[] = {ac_linear(one, a, NULL, AC_OUT_IN), ac_linear(one, b, NULL, AC_OUT_IN)};
  ac_graph_set_loss(g, ac_mean_squared_error(ac_concat(g, parts, 2, 1), x, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

/* Each is within 10 % and three deviations of its own exact scale, and they add up to the whole. */
static void layers_are_known_apart(const char *device) {
  static const int ends[] = {0, FIRST_PART, POINT_SIZE};
  ac_dataset *data = noisy_points();
  ac_graph *graph = two_parts();
  const ac_plan_desc plan = {.batch = 64, .micro_batch = 8, .optimizer = {.kind = AC_SGD}};
  ac_trainer_desc desc = noisy_points_still;
  desc.noise_layers = true;
  run r = start_graph(device, graph, &plan, &desc);
  ac_noise_scale all, part;
  double g = 0, s = 0;
  assert_ok(ac_fit(r.trainer, &(ac_fit_desc){.train = data, .steps = 600}, NULL));
  assert_ok(ac_trainer_noise_scale(r.trainer, &all));
  for (int i = 0; i < 2; i++) {
    const double variance = noisy_points_variance(ends[i], ends[i + 1]),
                 exact = variance / (0.25 * (ends[i + 1] - ends[i])),
                 share = variance / noisy_points_variance(0, POINT_SIZE);
    assert_ok(ac_trainer_noise_scale_of(r.trainer, i, &part));
    print_message("%s, part %d: %.3f +- %.3f, exactly %.3f\n", device, i, part.batch,
                  part.deviation, exact);
    assert_int_equal(part.windows, 600);
    assert_true(fabs(part.batch / exact - 1) < 0.1);
    assert_true(fabs(part.batch - exact) < 3 * part.deviation);
    assert_true(fabs(part.variance / all.variance / share - 1) < 0.05);
    g += part.gradient_squares;
    s += part.variance;
  }
  assert_true(fabs(g - all.gradient_squares) < 1e-9 * all.gradient_squares);
  assert_true(fabs(s - all.variance) < 1e-9 * all.variance);
  assert_refused(ac_trainer_noise_scale_of(r.trainer, 2, &part), AC_ERROR_ARGUMENT,
                 "parameter 2 of 2");
  assert_refused(ac_trainer_noise_scale_of(r.trainer, -1, &part), AC_ERROR_ARGUMENT,
                 "parameter -1");
  end_run(&r);
  ac_graph_free(graph);
  ac_dataset_free(data);
}
ON_SHARED_DEVICES(layers_are_known_apart)

/* ---- states ---------------------------------------------------------------------------------- */

enum { WINDOWS = 5, PARAMETERS = 6 };

/* Windows of 4 samples, one after the other, from one of all on. */
static void train_to(run *r, int from, int to) {
  for (int sample = from; sample < to; sample++) {
    assert_ok(feed_samples(r, sample % COUNT, 1));
    if (sample % BATCH == BATCH - 1) assert_ok(ac_trainer_update(r->trainer, NULL));
  }
}

static run start_layers(bool layers) {
  const ac_plan_desc plan = {.batch = BATCH, .micro_batch = 1, .batch_norm = AC_BATCH_NORM_MICRO};
  return start_model("cpu", &(shape_of_model){.norm = true}, &plan,
                     &(ac_trainer_desc){.noise_every = 1, .noise_layers = layers});
}

static void look_at_layers(const run *r, ac_noise_scale noise[PARAMETERS]) {
  assert_true(ac_trainer_parameter_count(r->trainer) <= PARAMETERS);
  memset(noise, 0, PARAMETERS * sizeof *noise);
  for (int i = 0; i < ac_trainer_parameter_count(r->trainer); i++)
    assert_ok(ac_trainer_noise_scale_of(r->trainer, i, &noise[i]));
}

/* Also in the middle of a window. */
static void layers_are_part_of_states(void **state) {
  (void)state;
  const test_path path = in_folder("layers");
  ac_noise_scale whole[PARAMETERS], parts[PARAMETERS];
  run r = start_layers(true);
  train_to(&r, 0, WINDOWS * BATCH);
  look_at_layers(&r, whole);
  int trained = 0;
  for (int i = 0; i < PARAMETERS; i++) {
    assert_true(whole[i].windows == 0 || whole[i].windows == WINDOWS);
    trained += whole[i].windows > 0;
  }
  assert_int_equal(trained, 4); /* a norm's running mean and variance are not */
  end_run(&r);
  for (int middle = 6; middle < 6 + BATCH; middle++) {
    r = start_layers(true);
    train_to(&r, 0, middle);
    assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
    end_run(&r);
    r = start_layers(true);
    train_to(&r, 0, 5); /* which the state takes the place of */
    assert_ok(ac_trainer_load_state(r.trainer, path.text));
    train_to(&r, middle, WINDOWS * BATCH);
    look_at_layers(&r, parts);
    assert_memory_equal(parts, whole, sizeof whole);
    end_run(&r);
  }
}

static void a_range_test_leaves_them(void **state) {
  (void)state;
  ac_noise_scale before[PARAMETERS], after[PARAMETERS];
  ac_rate_point points[10];
  ac_rate_test result;
  ac_dataset *data = dataset_of(COUNT);
  run r = start_layers(true);
  train_to(&r, 0, 2 * BATCH);
  look_at_layers(&r, before);
  assert_ok(ac_trainer_test_rates(
      r.trainer, &(ac_rate_test_desc){.train = data, .updates = 10, .least = 1e-4, .most = 1e-3},
      points, &result));
  look_at_layers(&r, after);
  assert_memory_equal(before, after, sizeof before);
  end_run(&r);
  ac_dataset_free(data);
}

/* What a state lacks begins with the run that goes on, in its next window; what nobody wants any
 * more is left. */
static void layers_may_begin_late(void **state) {
  (void)state;
  const test_path path = in_folder("late");
  ac_noise_scale noise[PARAMETERS], all;
  for (int wanted = 0; wanted < 2; wanted++) {
    run r = start_layers(!wanted);
    train_to(&r, 0, 2 * BATCH + 1);
    assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
    end_run(&r);
    r = start_layers(wanted);
    train_to(&r, 0, BATCH);
    assert_ok(ac_trainer_load_state(r.trainer, path.text));
    train_to(&r, 2 * BATCH + 1, 4 * BATCH);
    look_at_layers(&r, noise);
    assert_ok(ac_trainer_noise_scale(r.trainer, &all));
    assert_int_equal(all.windows, 4);
    for (int i = 0; i < PARAMETERS; i++)
      assert_true(noise[i].windows == 0 || (wanted && noise[i].windows == 1));
    assert_true(!wanted || noise[0].windows == 1);
    end_run(&r);
  }
}

static void texts_are_read_strictly(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",
      "3",
      "3 1",
      "3 1 1 2 3 4 5 6 1 2 3 4 5",
      "3 1 1 2 3 4 5 6 1 2 3 4 5 6 7",
      "3 1 1 2 3 4 5 6 1 2 3 4 5 6 ",
      "3 2 1 2 3 4 5 6 1 2 3 4 5 6",
      "-3 1 1 2 3 4 5 6 1 2 3 4 5 6",
      "3 1 1 2 3 4 5 6 1 2 3 4 5 nan",
      "3 1 1 2 3 4 5 6 1 2 3 4 5 1e999",
      "3 1 1 2 3 4 5 6 1 2 3 4 5 0x6",
      "3 1 -1 2 3 4 5 6 1 2 3 4 5 6",
      "3 1 1 2 3 -4 5 6 1 2 3 4 5 6",
      "3 1 1 2 3 4 5 -6 1 2 3 4 5 6",
      "3 1  1 2 3 4 5 6 1 2 3 4 5 6",
  };
  const ac_state_field *field = &ac_watcher_noise_layers.record.fields[0];
  ac_noise_layers *two = calloc(1, sizeof *two + 2 * sizeof *two->of), none = {.parameters = 2};
  two->parameters = two->rows = 2;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (ac_state_field_get(field, &none, bad[i]) || ac_state_field_get(field, two, bad[i]))
      fail_msg("\"%s\" is taken", bad[i]);
  const char *good = "3 1 1 -2 3 4 -5 6 0.10000000000000001 2 3 4 5 7";
  assert_true(ac_state_field_get(field, &none, good) && ac_state_field_get(field, two, good));
  assert_true(two->count == 3 && two->begun && two->of[0].averages.g == -2);
  assert_true(two->of[1].first_squares == 0.1 && two->of[1].averages.ss == 7);
  char *text = malloc(ac_state_field_room(field, two));
  ac_state_field_put(field, two, text);
  assert_string_equal(text, good);
  free(two);
  free(text);
}

static void it_takes_the_noise_scale(void **state) {
  (void)state;
  ac_graph *graph = graph_of(&(shape_of_model){.norm = false});
  ac_device *device = open_device("dry");
  ac_plan *plan;
  ac_trainer *trainer;
  assert_ok(ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = BATCH}));
  assert_refused(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.noise_layers = true}),
                 AC_ERROR_ARGUMENT, "also give noise_every");
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layers_are_known_apart_everywhere),
      cmocka_unit_test(layers_are_part_of_states),
      cmocka_unit_test(layers_may_begin_late),
      cmocka_unit_test(a_range_test_leaves_them),
      cmocka_unit_test(texts_are_read_strictly),
      cmocka_unit_test(it_takes_the_noise_scale),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
