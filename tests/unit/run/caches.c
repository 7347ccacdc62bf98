/* Caches: a text that is read in parts, in any sizes and from any position on, has the logits that
 * one forward pass over all of it has. Models are drawn at random: heads that share keys, windows,
 * caps, samples of different lengths, and each precision. */
#include "support/devices.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 24, VOCABULARY = 11, SIZE = 4, MOST_BATCH = 3 };

typedef struct model {
  int layers, heads, key_heads, window, batch, chunk, length;
  float soft_cap;
  ac_precision precision;
} model;

static uint64_t state;

static int below(int n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (uint64_t)n);
}

static model draw(ac_precision precision) {
  model m = {.layers = 1 + below(2), .key_heads = 1 + below(2), .precision = precision};
  m.heads = m.key_heads * (1 + below(3));
  m.window = below(3) ? 0 : 1 + below(9);
  m.soft_cap = below(3) ? 0 : 2;
  m.batch = 1 + below(MOST_BATCH);
  m.length = 8 + below(MOST - 7);
  m.chunk = 2 + below(m.length - 1);
  return m;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static ac_tensor *weight(ac_graph *g, int layer, const char *part, int64_t out, int64_t in) {
  static const ac_parameter_desc desc = {.init = {.kind = AC_INIT_NORMAL, .deviation = 0.3f}};
  char name[32];
  snprintf(name, sizeof name, "%d.%s", layer, part);
  return ac_parameter(g, name, SHAPE(out, in), &desc);
}

static ac_tensor *project(ac_graph *g, int layer, const char *part, ac_tensor *x, int n, int heads,
                          int width) {
  x = ac_linear(x, weight(g, layer, part, (int64_t)heads * SIZE, width), NULL, AC_OUT_IN);
  return ac_reshape(x, SHAPE(AC_BATCH, n, heads, SIZE));
}

/* `n` tokens at a time; `positions` 0: without caches. */
static ac_graph *build(const model *m, int n, int positions) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  const int width = m->heads * SIZE;
  ac_tensor *tokens = ac_input(g, "tokens", AC_I32, SHAPE(AC_BATCH, n)),
            *at = ac_input(g, "positions", AC_I32, SHAPE(AC_BATCH, n)),
            *ends = positions ? ac_input(g, "ends", AC_I32, SHAPE(AC_BATCH)) : NULL;
  ac_tensor *x = ac_embedding(weight(g, 9, "table", VOCABULARY, width), tokens);
  const ac_attention_desc desc = {
      .window = m->window, .soft_cap = m->soft_cap, .causal = !positions};
  for (int layer = 0; layer < m->layers; layer++) {
    ac_tensor *h = ac_rms_norm(x, NULL, 0),
              *q = ac_rope(project(g, layer, "q", h, n, m->heads, width), at, NULL),
              *k = ac_rope(project(g, layer, "k", h, n, m->key_heads, width), at, NULL),
              *v = project(g, layer, "v", h, n, m->key_heads, width);
    char name[32];
    snprintf(name, sizeof name, "%d.attention", layer);
    ac_tensor *y = positions ? ac_cached_attention(q, k, v, name, ends, positions, &desc)
                             : ac_attention(q, k, v, &desc);
    y = ac_reshape(y, SHAPE(AC_BATCH, n, width));
    x = ac_add(x, ac_linear(y, weight(g, layer, "o", width, width), NULL, AC_OUT_IN));
  }
  if (positions) x = ac_slice(x, 1, n - 1, 1);
  ac_graph_set_output(g, "logits",
                      ac_linear(x, weight(g, 9, "head", VOCABULARY, width), NULL, AC_OUT_IN));
  assert_ok(ac_graph_status(g));
  return g;
}

typedef struct runner {
  ac_plan *plan;
  ac_session *session;
} runner;

static runner start(ac_device *device, const model *m, int n, int positions, const runner *other) {
  runner r = {0};
  ac_graph *g = build(m, n, positions);
  const ac_plan_desc desc = {.purpose = AC_PREDICT,
                             .batch = m->batch,
                             .precision = m->precision,
                             .shared = other ? "*" : NULL};
  assert_ok(ac_plan_create(&r.plan, g, device, &desc));
  ac_graph_free(g);
  if (other) assert_ok(ac_session_create_with(&r.session, r.plan, 3, other->session));
  else assert_ok(ac_session_create(&r.session, r.plan, 3));
  return r;
}

static void end(runner *r) {
  ac_session_free(r->session);
  ac_plan_free(r->plan);
}

/* ---- texts ----------------------------------------------------------------------------------- */

typedef struct text {
  int32_t tokens[MOST_BATCH][MOST];
  float logits[MOST_BATCH][MOST][VOCABULARY]; /* of one pass over all */
} text;

static void read_whole(ac_device *device, const model *m, text *t) {
  int32_t tokens[MOST_BATCH * MOST], positions[MOST_BATCH * MOST];
  float logits[MOST_BATCH * MOST * VOCABULARY];
  runner r = start(device, m, m->length, 0, NULL);
  for (int i = 0; i < m->batch * m->length; i++) {
    const int b = i / m->length, p = i % m->length;
    positions[i] = p;
    tokens[i] = t->tokens[b][p] = below(VOCABULARY);
  }
  const ac_feed feeds[] = {{"tokens", tokens}, {"positions", positions}};
  const int rows = m->batch * m->length;
  assert_ok(ac_session_run(r.session, m->batch, feeds, 2));
  assert_ok(ac_session_output(r.session, "logits", 0, (int64_t)rows * VOCABULARY, logits));
  for (int i = 0; i < rows; i++)
    memcpy(t->logits[i / m->length][i % m->length], logits + i * VOCABULARY,
           sizeof t->logits[0][0]);
  end(&r);
}

/* Reads n tokens up to each sample's end; what would be before its beginning is padding. */
static void read_part(const runner *r, const model *m, const text *t, int n, const int32_t *ends,
                      bool predict, float *logits) {
  int32_t tokens[MOST_BATCH * MOST], positions[MOST_BATCH * MOST];
  for (int i = 0; i < m->batch * n; i++) {
    const int p = ends[i / n] - n + i % n;
    positions[i] = p < 0 ? 0 : p;
    tokens[i] = p < 0 ? VOCABULARY - 1 : t->tokens[i / n][p];
  }
  const ac_feed feeds[] = {{"tokens", tokens}, {"positions", positions}, {"ends", ends}};
  const int64_t count = (int64_t)m->batch * VOCABULARY;
  if (predict) {
    assert_ok(ac_session_predict(r->session, "logits", m->batch, feeds, 3, count, logits));
    return;
  }
  assert_ok(ac_session_run(r->session, m->batch, feeds, 3));
  assert_ok(ac_session_output(r->session, "logits", 0, count, logits));
}

/* Logits are of the size of 1; storage in 16 bits rounds each layer's results. */
static double allowed(ac_precision precision) {
  return precision == AC_PRECISION_F32 ? 2e-5 : precision == AC_PRECISION_F16 ? 0.02 : 0.15;
}

static void compare(const model *m, const text *t, const int32_t *ends, const float *logits) {
  for (int b = 0; b < m->batch; b++)
    for (int k = 0; k < VOCABULARY; k++) {
      const double ours = (double)logits[b * VOCABULARY + k],
                   whole = (double)t->logits[b][ends[b] - 1][k];
      if (!(fabs(ours - whole) <= allowed(m->precision) * fmax(1, fabs(whole))))
        fail_msg("sample %d, position %d of %d in parts of %d: %g, not %g", b, (int)ends[b] - 1,
                 m->length, m->chunk, ours, whole);
    }
}

/* Each time from a position that was read before, or the next one; sometimes from the first. */
static void read_in_parts(ac_device *device, const model *m) {
  text t;
  float logits[MOST_BATCH * VOCABULARY];
  int32_t ends[MOST_BATCH] = {0}, known[MOST_BATCH] = {0};
  read_whole(device, m, &t);
  runner one = start(device, m, 1, m->length, NULL),
         chunk = start(device, m, m->chunk, m->length, &one);
  for (int round = 0; round < 24; round++) {
    const bool single = below(2);
    const int n = single ? 1 : m->chunk;
    for (int b = 0; b < m->batch; b++) {
      const int most = known[b] + n < m->length ? known[b] + n : m->length;
      ends[b] = round % 8 == 7 ? 1 + below(most) : most - below(n);
      known[b] = ends[b];
    }
    read_part(single ? &one : &chunk, m, &t, n, ends, below(2), logits);
    compare(m, &t, ends, logits);
  }
  end(&chunk);
  end(&one);
}

static void parts_are_the_whole(const char *name) {
  ac_device *device = open_device(name);
  const int rounds = strcmp(name, "cpu") ? 3 : 40;
  state = 7;
  for (int k = 0; k < rounds; k++)
    for (int p = 0; p < 3; p++) {
      const model m = draw((ac_precision)p);
      read_in_parts(device, &m);
    }
  ac_device_close(device);
}
ON_EVERY_DEVICE(parts_are_the_whole)

/* ---- bytes ----------------------------------------------------------------------------------- */

static void bytes_are_counted(const char *name) {
  ac_device *device = open_device(name);
  const model m = {.layers = 2, .heads = 8, .key_heads = 4, .batch = 2, .length = MOST};
  for (int p = 0; p < 3; p++) {
    model stored = m;
    stored.precision = (ac_precision)p;
    ac_device_reset_peak(device);
    runner one = start(device, &stored, 1, 64, NULL), more = start(device, &stored, 8, 64, &one);
    const ac_plan_bytes *own = &ac_plan_get_info(one.plan)->bytes,
                        *other = &ac_plan_get_info(more.plan)->bytes;
    const uint64_t caches = UINT64_C(2) * 2 * 2 * 64 * 4 * SIZE * (p ? 2 : 4);
    assert_int_equal(own->caches, caches);
    assert_int_equal(other->caches, 0);
    assert_int_equal(other->parameters, 0);
    assert_int_equal(own->total,
                     own->parameters + own->activations + own->workspace + own->io + own->caches);
    assert_int_equal(ac_device_peak_bytes(device), own->total + other->total);
    end(&more);
    end(&one);
    assert_int_equal(ac_device_allocated_bytes(device), 0);
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(bytes_are_counted)

/* ---- what is refused ------------------------------------------------------------------------- */

static void mistakes_are_refused(void **unused) {
  (void)unused;
  ac_device *device = open_device("cpu");
  const model m = {.layers = 1, .heads = 2, .key_heads = 1, .batch = 2, .length = 8, .chunk = 4};
  runner one = start(device, &m, 1, 8, NULL);
  ac_graph *g = build(&m, 4, 8), *longer = build(&m, 4, 9);
  ac_plan *plan;
  ac_session *session;
  ac_plan_desc desc = {.purpose = AC_TRAIN, .batch = 2, .shared = "*.attention.*,9.*"};
  assert_refused(ac_plan_create(&plan, g, device, &desc), AC_ERROR_ARGUMENT,
                 "cache \"0.attention.key\" keeps rows from one run to the next");
  desc.purpose = AC_PREDICT;
  desc.batch = 1;
  assert_ok(ac_plan_create(&plan, g, device, &desc));
  assert_refused(ac_session_create(&session, plan, 0), AC_ERROR_ARGUMENT,
                 "the plan shares parameters or caches");
  assert_refused(ac_session_create_with(&session, plan, 0, one.session), AC_ERROR_ARGUMENT,
                 "cache \"0.attention.key\" is to be shared, but is another one");
  ac_plan_free(plan);
  desc.batch = 2;
  assert_ok(ac_plan_create(&plan, longer, device, &desc));
  assert_refused(ac_session_create_with(&session, plan, 0, one.session), AC_ERROR_ARGUMENT,
                 "give both plans the same precision, positions and micro-batch");
  ac_plan_free(plan);
  desc.shared = "*.other";
  assert_refused(ac_plan_create(&plan, g, device, &desc), AC_ERROR_ARGUMENT, "\"*.other\"");
  const int32_t tokens[3] = {0}, far[3] = {1, 9, 1}, near[3] = {1, 8, 1};
  ac_feed feeds[] = {{"tokens", tokens}, {"positions", tokens}, {"ends", far}};
  assert_refused(ac_session_run(one.session, 2, feeds, 3), AC_ERROR_ARGUMENT,
                 "input \"ends\" holds 9 at position 1, outside [0, 9)");
  feeds[2].data = near;
  assert_ok(ac_session_run(one.session, 2, feeds, 3));
  assert_refused(ac_session_run(one.session, 3, feeds, 3), AC_ERROR_ARGUMENT,
                 "has room for 2 samples, but 3 were fed");
  end(&one);
  runner whole = start(device, &m, 8, 0, NULL);
  desc.shared = "*.key";
  assert_ok(ac_plan_create(&plan, g, device, &desc));
  assert_refused(ac_session_create_with(&session, plan, 0, whole.session), AC_ERROR_ARGUMENT,
                 "but the other session has none");
  ac_plan_free(plan);
  end(&whole);
  ac_graph_free(longer);
  ac_graph_free(g);
  ac_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_are_the_whole_everywhere),
      cmocka_unit_test(bytes_are_counted_everywhere),
      cmocka_unit_test(mistakes_are_refused),
  };
  return cmocka_run_group_tests_name("caches", tests, NULL, NULL);
}
