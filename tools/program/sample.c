/* `accrue sample`: a language model with a tokenizer (sample_language_model.c), or a gpt that
 * learned bytes, which continues a prompt byte by byte here: each byte runs the model over the last
 * `context` bytes in a forward-only session. */
#include "program/sample.h"
#include "program/commands.h"
#include "program/finite.h"
#include "program/gpt_config.h"
#include "program/language_model.h"
#include "program/model_path.h"
#include "common/device_choice.h"
#include "common/message.h"
#include "common/options.h"
#include "common/waiting.h"

#include <accrue/accrue.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct sampler {
  const char *model, *prompt, *device;
  char path[MODEL_PATH_BYTES];
  int64_t bytes, threads, top_k;
  double temperature;

  gpt_config config;
  ac_device *open_device;
  ac_plan *plan;
  ac_session *session;
  int32_t *tokens; /* [context]: the span that the model sees, filled from the left */
  int64_t length;
  float *logits; /* [vocab] */
  float *sorted;
  uint64_t random;
} sampler;

/* ---- choosing -------------------------------------------------------------------------------- */

/* SplitMix64 (Steele, Lea and Flood 2014), in [0, 1). */
static double uniform(sampler *s) {
  uint64_t z = s->random += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static int descending(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x < y) - (x > y);
}

/* The k-th largest logit: what lies below is not drawn. */
static float threshold(sampler *s) {
  if (s->top_k == 0 || s->top_k >= s->config.vocab) return -INFINITY;
  memcpy(s->sorted, s->logits, (size_t)s->config.vocab * sizeof(float));
  qsort(s->sorted, (size_t)s->config.vocab, sizeof(float), descending);
  return s->sorted[s->top_k - 1];
}

/* Draws from softmax(logits / temperature); temperature 0 takes the largest. */
static int32_t choose(sampler *s) {
  int64_t V = s->config.vocab;
  int32_t best = 0;
  for (int32_t i = 1; i < V; i++)
    if (s->logits[i] > s->logits[best]) best = i;
  if (s->temperature <= 0) return best;

  float least = threshold(s), top = s->logits[best];
  double sum = 0;
  for (int64_t i = 0; i < V; i++) {
    double p = s->logits[i] < least ? 0 : exp((s->logits[i] - top) / s->temperature);
    s->logits[i] = (float)p;
    sum += s->logits[i];
  }
  double at = uniform(s) * sum;
  for (int32_t i = 0; i < V; i++)
    if ((at -= s->logits[i]) < 0) return i;
  return best;
}

/* ---- running --------------------------------------------------------------------------------- */

static void push(sampler *s, int32_t token) {
  int64_t T = s->config.context;
  if (s->length == T) {
    memmove(s->tokens, s->tokens + 1, (size_t)(T - 1) * sizeof *s->tokens);
    s->length--;
  }
  s->tokens[s->length++] = token;
}

/* Positions after the last token hold zeros; attention is causal, so nothing before them sees them.
 */
static ac_status step(sampler *s) {
  const ac_feed feed = {"tokens", s->tokens};
  ac_status status = ac_session_run(s->session, 1, &feed, 1);
  if (status != AC_OK) return status;
  int64_t V = s->config.vocab;
  return ac_session_output(s->session, "logits", (s->length - 1) * V, V, s->logits);
}

/* A model may write any bytes. A pipe or a file gets the bytes unchanged. A terminal gets only
 * characters that it shows: it must not obey what a model happens to write. */
typedef struct writer {
  bool terminal;
  char pending[4]; /* bytes of a character that is not complete yet */
  size_t count;
} writer;

static bool write_byte(writer *w, int byte) {
  if (!w->terminal) return putchar(byte) != EOF;
  w->pending[w->count++] = (char)byte;
  const size_t written = message_put_some(stdout, w->pending, w->count, true);
  w->count -= written;
  memmove(w->pending, w->pending + written, w->count);
  return !ferror(stdout) && fflush(stdout) == 0;
}

static void end_text(writer *w) {
  for (size_t i = 0; i < w->count; i++) message_put(stdout, "%c", w->pending[i]);
  if (w->terminal) putchar('\n');
}

static int generate(sampler *s) {
  writer w = {.terminal = isatty(STDOUT_FILENO)};
  for (int64_t i = 0; i < s->bytes; i++) {
    if (step(s) != AC_OK) return fail_library();
    for (int64_t k = 0; k < s->config.vocab; k++)
      if (!isfinite(s->logits[k])) return fail_not_finite(s->path, "what it predicts is");
    int32_t token = choose(s);
    push(s, token);
    if (!write_byte(&w, token)) return fail("cannot write the sample: %s", strerror(errno));
  }
  end_text(&w);
  return STATUS_DONE;
}

/* ---- preparing ------------------------------------------------------------------------------- */

/* Flags that only models with a tokenizer have, and the one that only others have. */
static int check_flags(const options *o, bool language_model) {
  static const char *const of_tokens[] = {"tokens",   "adapter",   "chat",    "system",
                                          "template", "stop",      "context", "memory",
                                          "base",     "top-p",     "min-p",   "repetition-penalty",
                                          "json",     "precision", NULL};
  if (language_model && options_given(o, "bytes"))
    return fail_usage("--bytes is for a gpt that learned bytes; this model writes --tokens N");
  for (int i = 0; of_tokens[i] && !language_model; i++)
    if (options_given(o, of_tokens[i]))
      return fail_usage("--%s is for models with a tokenizer, and this one learned bytes",
                        of_tokens[i]);
  if (options_given(o, "system") && !options_given(o, "chat"))
    return fail_usage("--system is for --chat");
  if (options_given(o, "template") && !options_given(o, "chat"))
    return fail_usage("--template is for --chat");
  return STATUS_CONTINUE;
}

static int parse(sample_flags *f, int argc, char **argv) {
  options o = {.command = "sample",
               .summary =
                   "Continues a prompt, or chats, with a language model, and writes the text "
                   "to stdout."};
  const option model[] = {
      FLAG("model", OPTION_TEXT, &f->model),
      FLAG("adapter", OPTION_TEXT, &f->adapter),
      FLAG("prompt", OPTION_TEXT, &f->prompt),
      FLAG("chat", OPTION_SWITCH, &f->chat),
      FLAG("system", OPTION_TEXT, &f->system),
      FLAG("template", OPTION_TEXT, &f->chat_template),
      FLAG("tokens", OPTION_INTEGER, &f->tokens),
      FLAG("bytes", OPTION_INTEGER, &f->bytes),
      FLAG("stop", OPTION_LIST, &f->stops),
      FLAG("temperature", OPTION_REAL, &f->temperature),
      FLAG("top-k", OPTION_INTEGER, &f->top_k),
      FLAG("top-p", OPTION_REAL, &f->top_p),
      FLAG("min-p", OPTION_REAL, &f->min_p),
      FLAG("repetition-penalty", OPTION_REAL, &f->repetition_penalty),
      FLAG("seed", OPTION_INTEGER, &f->seed),
  };
  const option run[] = {
      FLAG("context", OPTION_INTEGER, &f->context), FLAG("memory", OPTION_SIZE, &f->memory),
      FLAG("base", OPTION_CHOICE, &f->base),        FLAG("precision", OPTION_CHOICE, &f->precision),
      FLAG("device", OPTION_TEXT, &f->device),      FLAG("threads", OPTION_INTEGER, &f->threads),
      FLAG("json", OPTION_SWITCH, &f->json),
  };
  OPTIONS_ADD(&o, model);
  OPTIONS_ADD(&o, run);
  const int status = options_parse(&o, argc, argv);
  if (status != STATUS_CONTINUE) return status;
  if (!f->model)
    return fail_usage(
        "--model is missing: a folder, a GGUF file, or what accrue train has written");
  return check_flags(&o, language_model_is(f->model));
}

/* Leaves out positions that will not be filled, as each byte runs the model over all positions.
 * Later positions would change nothing, as attention is causal, and a file may have very many. */
static void leave_out_positions(sampler *s) {
  const size_t prompt = *s->prompt ? strlen(s->prompt) : 1;
  const int64_t filled = s->bytes < INT32_MAX ? (int64_t)prompt + s->bytes : INT32_MAX;
  if (filled < s->config.context) s->config.context = filled > 1 ? filled : 1;
}

static int read_config(sampler *s) {
  ac_model_file *file = NULL;
  if (ac_model_file_open(&file, s->path) != AC_OK) return fail_library();
  int status = gpt_config_read(&s->config, file, s->path);
  ac_model_file_close(file);
  if (status != STATUS_CONTINUE) return status;
  if (!s->config.heads)
    return fail("%s does not tell its number of heads, nor does a config.json next to it", s->path);
  if (s->config.vocab > 256)
    return fail("%s has a vocabulary of %" PRId64 "; sampling writes bytes and needs at most 256",
                s->path, s->config.vocab);
  leave_out_positions(s);
  return STATUS_CONTINUE;
}

static int open_session(sampler *s) {
  const ac_device_desc device = {
      .name = device_choose(s->device), .threads = (int)s->threads, .log = waiting_log};
  const ac_plan_desc desc = {.purpose = AC_PREDICT, .batch = 1, .micro_batch = 1};
  ac_graph *graph = NULL;
  const ac_status opened = ac_device_open(&s->open_device, &device);
  if (opened != AC_OK) return fail_setup(opened);
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) {
    gpt_build(graph, &s->config, false);
    status = ac_plan_create(&s->plan, graph, s->open_device, &desc);
  }
  ac_graph_free(graph);
  if (status == AC_OK) status = ac_session_create(&s->session, s->plan, 0);
  if (status == AC_OK) status = ac_session_load(s->session, s->path, GPT_PREFIX);
  return status == AC_OK ? STATUS_CONTINUE : fail_library();
}

static int feed_prompt(sampler *s) {
  s->tokens = calloc((size_t)s->config.context, sizeof *s->tokens);
  s->logits = calloc((size_t)s->config.vocab, sizeof *s->logits);
  s->sorted = calloc((size_t)s->config.vocab, sizeof *s->sorted);
  if (!s->tokens || !s->logits || !s->sorted) return fail("out of memory");
  const char *prompt = *s->prompt ? s->prompt : "\n";
  for (; *prompt; prompt++) {
    int32_t token = (unsigned char)*prompt;
    if (token >= s->config.vocab)
      return fail("the prompt's byte %d is outside the model's vocabulary of %" PRId64, (int)token,
                  s->config.vocab);
    push(s, token);
  }
  return STATUS_CONTINUE;
}

static int sample_bytes(const sample_flags *f) {
  sampler s = {.model = f->model,
               .prompt = f->prompt,
               .device = f->device,
               .bytes = f->bytes,
               .threads = f->threads,
               .top_k = f->top_k,
               .temperature = f->temperature,
               .random = (uint64_t)f->seed};
  int status = model_path("model", s.model, s.path);
  if (status == STATUS_CONTINUE) status = read_config(&s);
  if (status == STATUS_CONTINUE) status = feed_prompt(&s);
  if (status == STATUS_CONTINUE) status = open_session(&s);
  if (status == STATUS_CONTINUE) status = generate(&s);
  ac_session_free(s.session);
  ac_plan_free(s.plan);
  ac_device_close(s.open_device);
  free(s.tokens);
  free(s.logits);
  free(s.sorted);
  return status;
}

int sample_main(int argc, char **argv) {
  sample_flags f = {.prompt = "",
                    .device = "auto",
                    .bytes = 300,
                    .tokens = 256,
                    .seed = 1,
                    .temperature = 0.8,
                    .top_p = 1,
                    .repetition_penalty = 1};
  const int status = parse(&f, argc, argv);
  if (status != STATUS_CONTINUE) return status;
  return language_model_is(f.model) ? sample_language_model(&f) : sample_bytes(&f);
}
