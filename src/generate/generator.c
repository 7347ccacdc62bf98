/* A generator: two sessions with one copy of the weights and of the caches. One reads `chunk`
 * tokens of a prompt at a time, the other a single token.
 *
 *   text    [0 ........ known)[known ........ length)
 *            in the caches     fed or chosen, to be read
 *
 * A pass writes the rows of the last `chunk` tokens up to an end. If fewer are new, it reads some
 * of those before once more, with the same results to rounding; if the text is shorter, there is
 * padding before it, which the caches leave out. So the logits are always those of the last row,
 * and caches never hold anything but the text. To go back is to know fewer tokens. */
#include "core/error.h"
#include "core/integers.h"
#include "core/random.h"
#include "generate/sampling.h"
#include "graph/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64, FEW = 16 };

/* A plan alive, for so many tokens at a time. */
typedef struct pass {
  int64_t tokens;
  ac_plan *plan;
  ac_session *session;
  int32_t *ids, *positions; /* [tokens] */
} pass;

struct ac_generator {
  pass one, chunk; /* the second may be absent: tokens 0 */
  int64_t context, vocabulary;
  uint32_t *text; /* [context] */
  int64_t length, known;
  bool ready; /* the logits are those of the text */
  float *logits;
  bool *marks;
  ac_candidate *candidates;
  ac_sampling sampling;
  uint64_t drawn;
};

/* ---- making ---------------------------------------------------------------------------------- */

static ac_status check_desc(const ac_generator_desc *desc) {
  if (desc->context < 1 || desc->context > INT32_MAX - 1)
    return ac_fail(AC_ERROR_ARGUMENT, "generator: a context of %lld; give 1 to 2^31 - 2 tokens",
                   (long long)desc->context);
  if (desc->chunk < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "generator: a chunk of %lld tokens", (long long)desc->chunk);
  return ac_sampling_check(&desc->sampling);
}

/* How to make the pass. */
typedef struct maker {
  ac_device *device;
  const ac_generator_desc *desc;
  ac_generator_graph build;
  void *user;
} maker;

static ac_status make_plan(const maker *m, int64_t tokens, const pass *other, ac_plan **plan) {
  ac_graph *graph = NULL;
  ac_plan_desc desc = {.purpose = AC_PREDICT,
                       .batch = 1,
                       .memory = m->desc->memory,
                       .precision = m->desc->precision,
                       .shared = other ? "*" : NULL};
  const uint64_t taken = other ? ac_plan_get_info(other->plan)->bytes.total : 0;
  if (desc.memory) desc.memory = desc.memory > taken ? desc.memory - taken : 1;
  AC_TRY(ac_graph_create(&graph));
  m->build(m->user, graph, tokens, m->desc->context);
  const ac_status status = ac_plan_create(plan, graph, m->device, &desc);
  ac_graph_free(graph);
  return status;
}

static ac_status make_pass(const maker *m, int64_t tokens, const pass *other, pass *made) {
  *made = (pass){.tokens = tokens};
  AC_TRY(make_plan(m, tokens, other, &made->plan));
  made->ids = calloc((size_t)tokens, sizeof *made->ids);
  made->positions = calloc((size_t)tokens, sizeof *made->positions);
  if (!made->ids || !made->positions) return ac_fail(AC_ERROR_MEMORY, "generator: no memory");
  return other ? ac_session_create_with(&made->session, made->plan, 0, other->session)
               : ac_session_create(&made->session, made->plan, 0);
}

static void free_pass(pass *p) {
  ac_session_free(p->session);
  ac_plan_free(p->plan);
  free(p->ids);
  free(p->positions);
  *p = (pass){0};
}

/* A chunk that was not asked for may be smaller, down to none. */
static ac_status make_chunk(const maker *m, const pass *one, pass *chunk) {
  const int64_t most = ac_smaller(m->desc->chunk ? m->desc->chunk : CHUNK, m->desc->context);
  ac_status status = AC_OK;
  const ac_kept_error kept = ac_error_keep();
  for (int64_t tokens = most; tokens > 1; tokens /= 2) {
    status = make_pass(m, tokens, one, chunk);
    if (status == AC_OK || status != AC_ERROR_BUDGET || m->desc->chunk) return status;
    free_pass(chunk);
    ac_error_restore(&kept);
    status = AC_OK;
  }
  return status;
}

/* Elements of the output "logits"; 0: there is none, or it is more than a row of each sample. */
static int64_t find_logits(const ac_graph *graph) {
  for (int i = 0; i < graph->output_count; i++) {
    const ac_shape *shape = &ac_tensor_at(graph, graph->outputs[i].tensor)->shape;
    if (strcmp(graph->outputs[i].name, "logits") != 0) continue;
    const bool row = shape->batched && ac_shape_count(shape) == ac_shape_last(shape);
    return row ? ac_shape_last(shape) : 0;
  }
  return 0;
}

static ac_status find_vocabulary(ac_generator *generator, const maker *m) {
  ac_graph *graph = NULL;
  AC_TRY(ac_graph_create(&graph));
  m->build(m->user, graph, 1, m->desc->context);
  const ac_status status = ac_graph_status(graph);
  generator->vocabulary = find_logits(graph);
  ac_graph_free(graph);
  if (status == AC_OK && !generator->vocabulary)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "generator: the graph has no output \"logits\" [B, 1, V], of the last token");
  return status;
}

static ac_status make(ac_generator *generator, const maker *m) {
  generator->context = m->desc->context;
  generator->sampling = m->desc->sampling;
  AC_TRY(find_vocabulary(generator, m));
  AC_TRY(make_pass(m, 1, NULL, &generator->one));
  AC_TRY(make_chunk(m, &generator->one, &generator->chunk));
  const size_t vocabulary = (size_t)generator->vocabulary;
  generator->text = malloc((size_t)generator->context * sizeof *generator->text);
  generator->logits = malloc(vocabulary * sizeof *generator->logits);
  generator->marks = calloc(vocabulary, sizeof *generator->marks);
  generator->candidates = malloc(vocabulary * sizeof *generator->candidates);
  if (generator->text && generator->logits && generator->marks && generator->candidates)
    return AC_OK;
  return ac_fail(AC_ERROR_MEMORY, "generator: no memory for a text of %lld tokens",
                 (long long)generator->context);
}

ac_status ac_generator_create(ac_generator **generator, ac_device *device,
                              const ac_generator_desc *desc, ac_generator_graph build, void *user) {
  AC_CREATES(generator);
  AC_REQUIRE(device, desc);
  if (!build) return ac_fail(AC_ERROR_ARGUMENT, "generator: there is no function for the graph");
  AC_TRY(check_desc(desc));
  ac_generator *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "generator: no memory");
  const maker m = {device, desc, build, user};
  const ac_status status = make(made, &m);
  if (status == AC_OK) *generator = made;
  else ac_generator_free(made);
  return status;
}

void ac_generator_free(ac_generator *generator) {
  if (!generator) return;
  free_pass(&generator->chunk); /* before the one with the weights */
  free_pass(&generator->one);
  free(generator->text);
  free(generator->logits);
  free(generator->marks);
  free(generator->candidates);
  free(generator);
}

ac_session *ac_generator_session(ac_generator *generator) {
  return generator ? generator->one.session : NULL;
}

void ac_generator_get_info(const ac_generator *generator, ac_generator_info *info) {
  if (!info) return;
  *info = (ac_generator_info){0};
  if (!generator) return;
  info->context = generator->context;
  info->vocabulary = generator->vocabulary;
  info->chunk = generator->chunk.plan ? generator->chunk.tokens : 1;
  const pass *passes[] = {&generator->one, &generator->chunk};
  for (int i = 0; i < 2 && passes[i]->plan; i++) {
    const ac_plan_bytes *bytes = &ac_plan_get_info(passes[i]->plan)->bytes;
    info->parameters += bytes->parameters;
    info->caches += bytes->caches;
    info->total += bytes->total;
  }
}

/* ---- the text -------------------------------------------------------------------------------- */

static ac_status check_tokens(const ac_generator *generator, const uint32_t *tokens, int64_t count,
                              int64_t before) {
  if (count < 0 || count > generator->context - before)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "generator: %lld tokens after %lld are more than the context of %lld",
                   (long long)count, (long long)before, (long long)generator->context);
  for (int64_t i = 0; i < count; i++)
    if ((int64_t)tokens[i] >= generator->vocabulary)
      return ac_fail(AC_ERROR_ARGUMENT, "generator: token %lld is %u, outside [0, %lld)",
                     (long long)i, tokens[i], (long long)generator->vocabulary);
  return AC_OK;
}

ac_status ac_generator_feed(ac_generator *generator, const uint32_t *tokens, int64_t count) {
  AC_REQUIRE(generator);
  if (count > 0) AC_REQUIRE(tokens);
  AC_TRY(check_tokens(generator, tokens, count, generator->length));
  if (count > 0)
    memcpy(generator->text + generator->length, tokens, (size_t)count * sizeof *tokens);
  generator->length += count;
  if (count > 0) generator->ready = false;
  return AC_OK;
}

ac_status ac_generator_set_text(ac_generator *generator, const uint32_t *tokens, int64_t count) {
  AC_REQUIRE(generator);
  if (count > 0) AC_REQUIRE(tokens);
  AC_TRY(check_tokens(generator, tokens, count, 0));
  int64_t same = 0;
  while (same < count && same < generator->length && tokens[same] == generator->text[same]) same++;
  if (same == count && same == generator->length) return AC_OK;
  AC_TRY(ac_generator_rewind(generator, same));
  return ac_generator_feed(generator, tokens + same, count - same);
}

ac_status ac_generator_rewind(ac_generator *generator, int64_t length) {
  AC_REQUIRE(generator);
  if (length < 0 || length > generator->length)
    return ac_fail(AC_ERROR_ARGUMENT, "generator: the text has %lld tokens, so not the first %lld",
                   (long long)generator->length, (long long)length);
  if (length < generator->length) generator->ready = false;
  generator->length = length;
  generator->known = ac_smaller(generator->known, length);
  return AC_OK;
}

const uint32_t *ac_generator_text(const ac_generator *generator, int64_t *count) {
  if (count) *count = generator ? generator->length : 0;
  return generator ? generator->text : NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Runs a pass over the tokens before `end`. */
static ac_status run(ac_generator *generator, const pass *p, int64_t end) {
  const int32_t last = (int32_t)end;
  for (int64_t i = 0; i < p->tokens; i++) {
    const int64_t position = end - p->tokens + i;
    p->ids[i] = position < 0 ? 0 : (int32_t)generator->text[position];
    p->positions[i] = position < 0 ? 0 : (int32_t)position;
  }
  const ac_feed feeds[] = {{"tokens", p->ids}, {"positions", p->positions}, {"ends", &last}};
  AC_TRY(ac_session_run(p->session, 1, feeds, 3));
  generator->known = end;
  if (end < generator->length) return AC_OK;
  return ac_session_output(p->session, "logits", 0, generator->vocabulary, generator->logits);
}

/* A few tokens cost less one by one: a pass over one is bound by the bytes of the weights. */
static ac_status read_text(ac_generator *generator) {
  if (!generator->length) return ac_fail(AC_ERROR_STATE, "generator: the text is empty");
  if (generator->ready) return AC_OK;
  if (generator->known == generator->length) generator->known--; /* its logits are gone */
  while (generator->known < generator->length) {
    const int64_t left = generator->length - generator->known, chunk = generator->chunk.tokens;
    const bool single = !generator->chunk.plan || left <= chunk / FEW || left == 1;
    AC_TRY(single ? run(generator, &generator->one, generator->known + 1)
                  : run(generator, &generator->chunk, generator->known + ac_smaller(left, chunk)));
  }
  for (int64_t i = 0; i < generator->vocabulary; i++)
    if (!isfinite(generator->logits[i]))
      return ac_fail(AC_ERROR_NOT_FINITE, "generator: the logit of token %lld is %g", (long long)i,
                     (double)generator->logits[i]);
  generator->ready = true;
  return AC_OK;
}

ac_status ac_generator_read(ac_generator *generator, int64_t *read) {
  AC_REQUIRE(generator);
  const int64_t known = generator->known;
  if (read) *read = 0;
  AC_TRY(read_text(generator));
  if (read) *read = generator->known - known;
  return AC_OK;
}

ac_status ac_generator_logits(ac_generator *generator, float *logits, int64_t count) {
  AC_REQUIRE(generator, logits);
  if (count != generator->vocabulary)
    return ac_fail(AC_ERROR_ARGUMENT, "generator: there are %lld logits, not %lld",
                   (long long)generator->vocabulary, (long long)count);
  AC_TRY(read_text(generator));
  memcpy(logits, generator->logits, (size_t)count * sizeof *logits);
  return AC_OK;
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Uniform in [0, 1) with 53 bits. */
static double draw(ac_generator *generator) {
  const uint64_t number = generator->drawn++;
  const ac_philox_block block =
      ac_philox(generator->sampling.seed, (uint32_t)number, (uint32_t)(number >> 32), 0, 0);
  return (double)(((uint64_t)block.v[0] << 32 | block.v[1]) >> 11) * 0x1p-53;
}

ac_status ac_generator_next(ac_generator *generator, uint32_t *token) {
  AC_REQUIRE(generator, token);
  if (generator->length == generator->context)
    return ac_fail(AC_ERROR_STATE, "generator: the text fills the context of %lld tokens",
                   (long long)generator->context);
  AC_TRY(read_text(generator));
  /* The logits are those of another text afterwards. */
  ac_sampling_penalise(&generator->sampling, generator->logits, generator->text, generator->length,
                       generator->marks);
  const double at = generator->sampling.temperature > 0 ? draw(generator) : 0;
  *token = ac_sampling_choose(&generator->sampling, generator->logits, generator->vocabulary, at,
                              generator->candidates);
  return ac_generator_feed(generator, token, 1);
}

ac_status ac_generator_set_sampling(ac_generator *generator, const ac_sampling *sampling) {
  AC_REQUIRE(generator, sampling);
  AC_TRY(ac_sampling_check(sampling));
  generator->sampling = *sampling;
  generator->drawn = 0;
  return AC_OK;
}

/* ---- models ---------------------------------------------------------------------------------- */

typedef struct of_model {
  const ac_model *model;
  ac_model_graph_desc desc;
} of_model;

static void build_model(void *user, ac_graph *graph, int64_t tokens, int64_t context) {
  const of_model *of = user;
  ac_model_graph_desc desc = of->desc;
  desc.context = tokens;
  desc.cache = context;
  ac_model_build(of->model, graph, &desc);
}

ac_status ac_generator_create_model(ac_generator **generator, ac_model *model, ac_device *device,
                                    const ac_generator_desc *desc,
                                    const ac_model_graph_desc *graph) {
  AC_CREATES(generator);
  AC_REQUIRE(model, device, desc);
  of_model of = {model, AC_DESCRIBED(ac_model_graph_desc, graph)};
  ac_generator_desc settings = *desc;
  ac_model_info info;
  ac_generator *made;
  ac_model_get_info(model, &info);
  if (!settings.context) settings.context = info.positions;
  AC_TRY(ac_generator_create(&made, device, &settings, build_model, &of));
  const ac_status status = ac_model_load_session(model, ac_generator_session(made));
  if (status == AC_OK) *generator = made;
  else ac_generator_free(made);
  return status;
}
