#include "noisy_points.h"

/* Sample i's loss is the mean of (w - x_i)^2, so its gradient is w - x_i but for a factor, which
 * the noise scale does not see. Elements of x are normal, of deviations that grow from one to the
 * next, around 0; w stays at 0.5. */
static double noisy_point_deviation(int d) {
  return 0.5 + (double)d / POINT_SIZE;
}

double noisy_points_variance(int begin, int end) {
  double variance = 0;
  for (int d = begin; d < end; d++) variance += noisy_point_deviation(d) * noisy_point_deviation(d);
  return variance;
}

double noisy_points_scale(void) {
  return noisy_points_variance(0, POINT_SIZE) / (0.25 * POINT_SIZE);
}

static ac_status read_noisy_point(void *user, const ac_sample_key *key, void *const *fields) {
  float *one = fields[0], *x = fields[1];
  (void)user;
  *one = 1;
  for (int d = 0; d < POINT_SIZE; d++) {
    const ac_philox_block block =
        ac_philox(5, (uint32_t)key->index, (uint32_t)key->epoch, (uint32_t)d, 0);
    const double u = 1 - (double)ac_uniform24(block.v[0]), v = (double)ac_uniform24(block.v[1]);
    x[d] = (float)(noisy_point_deviation(d) * sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
  }
  return AC_OK;
}

ac_dataset *noisy_points(void) {
  ac_dataset *dataset;
  const ac_callback_dataset_desc desc = {.count = 100000,
                                         .field_count = 2,
                                         .fields = {{"one", AC_F32, 1}, {"x", AC_F32, POINT_SIZE}},
                                         .read = read_noisy_point,
                                         .concurrent = true};
  assert_ok(ac_dataset_from_callback(&dataset, &desc));
  return dataset;
}

ac_graph *noisy_points_graph(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  const ac_parameter_desc desc = {.init = {AC_INIT_CONSTANT, .value = 0.5f}};
  ac_tensor *one = ac_input(g, "one", AC_F32, SHAPE(AC_BATCH, 1)),
            *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, POINT_SIZE)),
            *w = ac_parameter(g, "w", SHAPE(POINT_SIZE, 1), &desc);
  ac_graph_set_loss(g, ac_mean_squared_error(ac_linear(one, w, NULL, AC_OUT_IN), x, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

const ac_trainer_desc noisy_points_still = {
    .noise_every = 1, .schedule = {.lr = -1}, .optimizer = {.weight_decay = -1}};
