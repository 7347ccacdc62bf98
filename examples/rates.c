/* Learning rates: a range test finds a rate, a schedule is printed before anything is trained, a
 * rate follows validation (plateau), and a function of the program's own is a schedule as well. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { POINTS = 256, HIDDEN = 32, STEPS = 600, TEST = 100 };

static float x[POINTS], y[POINTS];

static ac_status describe(ac_graph *graph) {
  const ac_parameter_desc spread = {.init = {AC_INIT_NORMAL, .deviation = 0.7f}};
  ac_tensor *in = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *target = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *w1 = ac_parameter(graph, "first.weight", AC_SHAPE(HIDDEN, 1), &spread),
            *b1 = ac_parameter(graph, "first.bias", AC_SHAPE(HIDDEN), &spread),
            *w2 = ac_parameter(graph, "last.weight", AC_SHAPE(1, HIDDEN), &spread),
            *hidden = ac_tanh(ac_linear(in, w1, b1, AC_OUT_IN));
  ac_graph_set_loss(graph,
                    ac_mean_squared_error(ac_linear(hidden, w2, NULL, AC_OUT_IN), target, NULL));
  return ac_graph_status(graph);
}

/* The trainer is afterwards what it was before. */
static ac_status range_test(ac_trainer *trainer, ac_dataset *data, double *rate) {
  const ac_rate_test_desc desc = {.train = data, .least = 1e-5, .most = 10, .updates = TEST};
  ac_rate_point points[TEST];
  ac_rate_test result;
  ac_status status = ac_trainer_test_rates(trainer, &desc, points, &result);
  if (status != AC_OK) return status;
  for (int64_t i = 0; i < result.count; i += 12)
    printf("  rate %.1e: loss %.3f\n", points[i].rate, points[i].smoothed);
  *rate = result.steepest < 0 ? 0 : points[result.steepest].rate;
  printf("  the loss falls fastest at %.1e\n", *rate);
  return AC_OK;
}

static void print_schedule(const ac_schedule *schedule) {
  for (int64_t update = 0; update < STEPS; update += 100)
    printf("  update %lld: rate %.5f, momentum %.3f\n", (long long)update,
           ac_schedule_rate(schedule, update), ac_schedule_momentum(schedule, update));
}

static ac_status fit(const ac_plan *plan, const ac_trainer_desc *training, ac_dataset *data,
                     double *loss) {
  const ac_fit_desc desc = {.train = data, .validation = data, .steps = STEPS};
  ac_trainer *trainer = NULL;
  ac_fit_result result;
  ac_status status = ac_trainer_create(&trainer, plan, training);
  if (status == AC_OK) status = ac_fit(trainer, &desc, &result);
  if (status == AC_OK) *loss = result.final.loss;
  ac_trainer_free(trainer);
  return status;
}

/* A schedule of the program's own: the rate that was scheduled, and half of it in odd hundreds. */
static double halves(void *user, int64_t update, double scheduled) {
  (void)user;
  return update / 100 % 2 ? scheduled / 2 : scheduled;
}

/* A loop of its own has to tell the schedule what validation says. ac_fit does it by itself. */
static ac_status plateau(const ac_plan *plan, double *rate) {
  const ac_trainer_desc training = {
      .schedule = {AC_SCHEDULE_PLATEAU, .lr = 0.01, .gamma = 0.5, .patience = 2}};
  ac_trainer *trainer = NULL;
  ac_status status = ac_trainer_create(&trainer, plan, &training);
  for (int i = 0; i < 4 && status == AC_OK; i++)
    status = ac_trainer_observe_validation(trainer, 1.25); /* no better three times */
  *rate = status == AC_OK ? ac_trainer_rate(trainer) : 0;
  ac_trainer_free(trainer);
  return status;
}

int main(void) {
  static const ac_field fields[] = {{"x", AC_F32, 1}, {"y", AC_F32, 1}};
  const void *arrays[] = {x, y};
  const ac_plan_desc policy = {.batch = 32};
  double rate = 0, cycle = 1, own = 1, reduced = 0;
  ac_dataset *data = NULL;
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  for (int i = 0; i < POINTS; i++) {
    x[i] = 4 * ((float)i / POINTS - 0.5f);
    y[i] = sinf(2 * x[i]);
  }
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = ac_dataset_from_memory(&data, POINTS, 2, fields, arrays);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK) status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, NULL);
  printf("range test\n");
  if (status == AC_OK) status = range_test(trainer, data, &rate);

  ac_trainer_desc training = {.schedule = {AC_SCHEDULE_ONE_CYCLE, .lr = rate, .total = STEPS}};
  printf("one cycle up to that rate\n");
  print_schedule(&training.schedule);
  if (status == AC_OK) status = fit(plan, &training, data, &cycle);
  training.schedule = (ac_schedule){.lr = rate};
  training.rate = halves;
  if (status == AC_OK) status = fit(plan, &training, data, &own);
  if (status == AC_OK) status = plateau(plan, &reduced);
  if (status != AC_OK) fprintf(stderr, "rates: %s\n", ac_last_error());
  printf("loss %.4f with one cycle, %.4f with an own schedule; the plateau's rate is %.4f\n", cycle,
         own, reduced);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_dataset_free(data);
  ac_graph_free(graph);
  return status == AC_OK && rate > 1e-4 && cycle < 0.1 && own < 0.1 && reduced == 0.005 ? 0 : 1;
}
