#include "program/export_proof.h"

#include "common/file.h"
#include "common/message.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CONTEXT = 32, MOST_SAMPLES = 4, MOST_TEXT = 1 << 20 };

/* ---- tokens ---------------------------------------------------------------------------------- */

static const char built_in[] =
    "The library had closed at nine, but the lamps of the reading room were still on. Two people "
    "sat at the long table; one was asleep.\n\n"
    "    for (int i = 0; i < 2048; i++)\n      sum += values[i] * 3.14159;\n\n"
    "\"Wie sp\xc3\xa4t ist es?\" she asked. \"A quarter past eleven,\" he said, \"and 1,024 pages "
    "are left.\"\n\n"
    "Question: what is the capital of France? Answer: Paris, which had 2,102,650 inhabitants in "
    "2023. \xe6\x9d\xb1\xe4\xba\xac is the capital of Japan, "
    "\xd0\x9a\xd0\xb8\xd1\x97\xd0\xb2 that of Ukraine.\n";

static int read_text(const char *path, char **text, size_t *bytes) {
  FILE *file;
  const int status = file_open(&file, path);
  if (status != STATUS_CONTINUE) return status;
  *text = malloc(MOST_TEXT);
  *bytes = *text ? fread(*text, 1, MOST_TEXT, file) : 0;
  const bool failed = ferror(file);
  fclose(file);
  if (!*text) return fail("out of memory");
  return failed ? fail("cannot read %s: %s", path, strerror(errno)) : STATUS_CONTINUE;
}

/* Numbers that are tokens of any model, where it has no tokenizer to ask. */
static void take_numbers(proof_text *text, const ac_model_info *info) {
  uint64_t random = 1;
  for (int64_t i = 0; i < text->samples * text->context; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    text->tokens[i] = (int32_t)((random >> 33) % (uint64_t)info->vocabulary);
  }
}

static int take_tokens(proof_text *text, ac_tokenizer *tokenizer, const ac_model_info *info,
                       const char *path) {
  char *owned = NULL;
  const char *from = built_in;
  size_t bytes = sizeof built_in - 1;
  ac_encoding encoding;
  if (path) {
    const int status = read_text(path, &owned, &bytes);
    if (status != STATUS_CONTINUE) return status;
    from = owned;
  }
  const ac_status status = ac_tokenizer_encode(tokenizer, from, bytes,
                                               &(ac_encode_desc){.add_special = true}, &encoding);
  free(owned);
  if (status != AC_OK) return fail_library();
  const int64_t count = (int64_t)encoding.count;
  if (count < text->context) text->context = count;
  if (text->context) text->samples = count / text->context;
  if (text->samples > MOST_SAMPLES) text->samples = MOST_SAMPLES;
  bool fit = true;
  for (int64_t i = 0; i < text->samples * text->context; i++) {
    text->tokens[i] = (int32_t)encoding.ids[i];
    fit &= encoding.ids[i] < info->vocabulary;
  }
  ac_encoding_free(&encoding);
  if (!count) return fail("%s has no tokens to compare logits on", path);
  return fit ? STATUS_CONTINUE
             : fail("the tokenizer of %s has tokens that its embedding has no rows for",
                    info->path);
}

int proof_text_make_room(proof_text *text, const ac_model *model) {
  ac_model_info info;
  ac_model_get_info(model, &info);
  *text = (proof_text){.samples = MOST_SAMPLES, .context = MOST_CONTEXT};
  if (info.positions < text->context) text->context = info.positions;
  text->tokens = calloc((size_t)(text->samples * text->context), sizeof *text->tokens);
  return text->tokens ? STATUS_CONTINUE : fail("out of memory");
}

int proof_text_make(proof_text *text, ac_model *model, const char *path) {
  ac_model_info info;
  ac_tokenizer *tokenizer = NULL;
  ac_model_get_info(model, &info);
  const int status = proof_text_make_room(text, model);
  if (status != STATUS_CONTINUE) return status;
  if (ac_model_tokenizer(model, &tokenizer) == AC_OK)
    return take_tokens(text, tokenizer, &info, path);
  if (path) return fail_library();
  take_numbers(text, &info);
  return STATUS_CONTINUE;
}

void proof_text_free(proof_text *text) {
  free(text->tokens);
  *text = (proof_text){.tokens = NULL};
}

/* ---- models that compute --------------------------------------------------------------------- */

int proof_model_open(proof_model *p, const ac_model *model, const ac_model_graph_desc *desc,
                     const proof_text *text, ac_device *device) {
  const ac_plan_desc plan = {.purpose = AC_PREDICT, .batch = 1, .micro_batch = 1};
  ac_model_graph_desc d = *desc;
  d.context = text->context;
  d.logits = d.frozen = true;
  *p = (proof_model){.graph = NULL};
  ac_status status = ac_graph_create(&p->graph);
  if (status == AC_OK) {
    ac_model_build(model, p->graph, &d);
    status = ac_plan_create(&p->plan, p->graph, device, &plan);
  }
  if (status == AC_OK) status = ac_session_create(&p->session, p->plan, 0);
  return status == AC_OK ? STATUS_CONTINUE : fail_library();
}

void proof_model_close(proof_model *p) {
  ac_session_free(p->session);
  ac_plan_free(p->plan);
  ac_graph_free(p->graph);
  *p = (proof_model){.graph = NULL};
}

static int copy_parameter(const proof_model *to, const proof_model *from,
                          const ac_tensor_info *info, float *piece, int64_t most) {
  int64_t elements = 1;
  for (int d = 0; d < info->rank; d++) elements *= info->shape[d];
  for (int64_t first = 0; first < elements; first += most) {
    const int64_t count = elements - first < most ? elements - first : most;
    if (ac_session_get_parameter(from->session, info->name, first, count, piece) != AC_OK ||
        ac_session_set_parameter(to->session, info->name, first, count, piece) != AC_OK)
      return fail_library();
  }
  return STATUS_CONTINUE;
}

int proof_model_copy(const proof_model *to, const proof_model *from) {
  enum { PIECE = 1 << 16 };
  float *piece = malloc(PIECE * sizeof *piece);
  int status = piece ? STATUS_CONTINUE : fail("out of memory");
  for (int i = 0; i < ac_graph_parameter_count(from->graph) && status == STATUS_CONTINUE; i++) {
    ac_tensor_info info;
    status = ac_graph_parameter(from->graph, i, &info) == AC_OK ? STATUS_CONTINUE : fail_library();
    if (status == STATUS_CONTINUE) status = copy_parameter(to, from, &info, piece, PIECE);
  }
  free(piece);
  return status;
}

int proof_logits(float **logits, const proof_model *p, const proof_text *text, int64_t vocabulary) {
  const int64_t each = text->context * vocabulary;
  *logits = malloc((size_t)(text->samples * each) * sizeof **logits);
  if (!*logits) return fail("out of memory");
  for (int64_t s = 0; s < text->samples; s++) {
    const ac_feed feed = {"tokens", text->tokens + s * text->context};
    const ac_status status =
        ac_session_predict(p->session, "logits", 1, &feed, 1, each, *logits + s * each);
    if (status != AC_OK) return fail_library();
  }
  return STATUS_CONTINUE;
}

/* ---- comparing ------------------------------------------------------------------------------- */

proof_difference proof_compare(const float *a, const float *b, int64_t count) {
  proof_difference d = {.finite = true};
  double squares = 0;
  for (int64_t i = 0; i < count; i++) {
    if (!isfinite(a[i]) || !isfinite(b[i])) d.finite = false;
    const double difference = fabs((double)a[i] - (double)b[i]);
    d.largest = fmax(d.largest, difference);
    d.logit = fmax(d.logit, fabs((double)a[i]));
    squares += difference * difference;
  }
  d.mean = count ? sqrt(squares / (double)count) : 0;
  return d;
}

/* A sum of n products of floats has an error of about sqrt(n) 2^-24 of its parts. A token passes
 * the sums of seven matrices a layer, each at most as long as the MLP is wide, and errors of
 * different sums add up like independent ones. Four times that, of the largest logit. */
double proof_allowed(const ac_model_info *info, double largest_logit) {
  const double length = (double)(info->hidden > info->width ? info->hidden : info->width);
  return 4 * 0x1p-24 * sqrt(7 * (double)info->layers * length) * largest_logit;
}
