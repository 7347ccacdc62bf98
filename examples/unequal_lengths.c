/* Samples of unequal length, fed as bytes and 64-bit integers. A sample is a row of readings. Each
 * is above or below a threshold that depends on its position. The model gets the positions
 * as a constant, and what is subtracted from every reading as an input without the batch. One plan,
 * made for the longest sample, trains on all of them: padding counts nothing. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { LONGEST = 12, WIDTH = 8, HIDDEN = 32, BATCH = 64, UPDATES = 400 };

typedef struct samples {
  uint8_t readings[BATCH * LONGEST];
  int64_t above[BATCH * LONGEST], lengths[BATCH];
  int64_t positions; /* real ones */
} samples;

static unsigned draw(uint32_t *state, unsigned below) {
  *state = *state * 1664525u + 1013904223u;
  return (*state >> 8) % below;
}

/* What is beyond a sample's length may be anything that its type can be: here zeros. */
static samples make_samples(uint32_t *state) {
  samples s = {.positions = 0};
  for (int i = 0; i < BATCH; i++) {
    s.lengths[i] = 1 + draw(state, LONGEST);
    s.positions += s.lengths[i];
    for (int t = 0; t < s.lengths[i]; t++) {
      s.readings[i * LONGEST + t] = (uint8_t)draw(state, 256);
      s.above[i * LONGEST + t] = s.readings[i * LONGEST + t] > (t % 3 == 0 ? 200 : 60);
    }
  }
  return s;
}

/* Sines and cosines of several frequencies: part of the plan, and of no model file. */
static ac_tensor *positions(ac_graph *graph) {
  float table[LONGEST * WIDTH];
  for (int t = 0; t < LONGEST; t++)
    for (int c = 0; c < WIDTH; c++) {
      const float angle = (float)t * 6.2831853f / (float)(2 + c / 2);
      table[t * WIDTH + c] = c % 2 ? cosf(angle) : sinf(angle);
    }
  return ac_constant(graph, "positions", AC_F32, AC_SHAPE(LONGEST, WIDTH), table);
}

static ac_status describe(ac_graph *graph) {
  const ac_parameter_desc orthogonal = {.init = {.kind = AC_INIT_ORTHOGONAL}},
                          small = {.init = {.kind = AC_INIT_TRUNCATED_NORMAL, .deviation = 0.1f}};
  ac_tensor *readings = ac_input(graph, "readings", AC_U8, AC_SHAPE(AC_BATCH, LONGEST)),
            *above = ac_input(graph, "above", AC_I64, AC_SHAPE(AC_BATCH, LONGEST)),
            *lengths = ac_input(graph, "lengths", AC_I64, AC_SHAPE(AC_BATCH)),
            *middle = ac_input(graph, "middle", AC_F32, AC_SHAPE(1));
  ac_tensor *x = ac_reshape(ac_scale(readings, 1.0f / 255), AC_SHAPE(AC_BATCH, LONGEST, 1));
  x = ac_add(x, ac_scale(middle, -1));
  x = ac_linear(x, ac_parameter(graph, "in.weight", AC_SHAPE(WIDTH, 1), NULL), NULL, AC_OUT_IN);
  x = ac_add(x, positions(graph));
  ac_tensor *w = ac_parameter(graph, "hidden.weight", AC_SHAPE(HIDDEN, WIDTH), &orthogonal),
            *b = ac_parameter(graph, "hidden.bias", AC_SHAPE(HIDDEN), NULL);
  x = ac_relu(ac_linear(x, w, b, AC_OUT_IN));
  w = ac_parameter(graph, "out.weight", AC_SHAPE(2, HIDDEN), &small);
  x = ac_linear(x, w, ac_parameter(graph, "out.bias", AC_SHAPE(2), NULL), AC_OUT_IN);
  ac_graph_set_output(graph, "logits", x);
  ac_graph_set_loss(graph, ac_cross_entropy(x, above, ac_length_mask(lengths, LONGEST), NULL));
  return ac_graph_status(graph);
}

static ac_status train(ac_trainer *trainer, ac_update *last) {
  const float half = 0.5f;
  uint32_t state = 1;
  ac_status status = ac_trainer_set_input(trainer, "middle", &half);
  for (int u = 0; u < UPDATES && status == AC_OK; u++) {
    const samples s = make_samples(&state);
    const ac_feed feeds[] = {{"readings", s.readings}, {"above", s.above}, {"lengths", s.lengths}};
    status = ac_trainer_accumulate(trainer, BATCH, feeds, 3);
    if (status == AC_OK) status = ac_trainer_update(trainer, last);
    if (status == AC_OK && last->weight != (double)s.positions) return AC_ERROR_INTERNAL;
  }
  return status;
}

/* A plan to predict needs no lengths: what nothing reads is not fed. Of the file only the weights
 * are loaded that match. */
static ac_status predict(ac_graph *graph, ac_device *device, const char *path, int *right) {
  ac_plan *plan = NULL;
  ac_session *session = NULL;
  uint32_t state = 2;
  const samples s = make_samples(&state);
  const float half = 0.5f;
  const ac_feed feeds[] = {{"readings", s.readings}, {"middle", &half}};
  static float logits[BATCH * LONGEST * 2];
  const ac_plan_desc policy = {.purpose = AC_PREDICT, .batch = BATCH};
  ac_status status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_session_create(&session, plan, 1);
  if (status == AC_OK) status = ac_session_load_part(session, path, "*.weight,*.bias", NULL);
  if (status == AC_OK) status = ac_session_run(session, BATCH, feeds, 2);
  if (status == AC_OK)
    status = ac_session_output(session, "logits", 0, (int64_t)BATCH * LONGEST * 2, logits);
  for (int i = 0; i < BATCH; i++)
    for (int t = 0; t < s.lengths[i]; t++) {
      const float *l = &logits[(i * LONGEST + t) * 2];
      *right += (l[1] > l[0]) == (s.above[i * LONGEST + t] == 1);
    }
  printf("%d of %d readings of new samples are told right\n", *right, (int)s.positions);
  *right = *right * 100 / (int)s.positions;
  ac_session_free(session);
  ac_plan_free(plan);
  return status;
}

int main(void) {
  const char *path = "unequal_lengths.safetensors";
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_update last = {0};
  int right = 0;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK)
    status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = BATCH});
  if (status == AC_OK)
    status =
        ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.seed = 1, .schedule = {.lr = 0.01}});
  if (status == AC_OK) status = train(trainer, &last);
  if (status == AC_OK) status = ac_trainer_save(trainer, path, NULL, 0);
  if (status == AC_OK) status = predict(graph, device, path, &right);
  if (status != AC_OK) fprintf(stderr, "unequal_lengths: %s\n", ac_last_error());
  remove(path);

  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  return status == AC_OK && right >= 95 ? 0 : 1;
}
