/* `accrue sample` with a model that has a tokenizer: a folder of Hugging Face's form, a GGUF file,
 * or an adapter on one of these. */
#include "program/sample.h"
#include "program/language_model.h"
#include "common/device_choice.h"
#include "common/freed_memory.h"
#include "common/json_text.h"
#include "common/message.h"
#include "common/waiting.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int find_model(sample_model *m) {
  const sample_flags *f = m->flags;
  language_model_path found;
  const int status = language_model_find("model", f->model, &found);
  if (status != STATUS_CONTINUE) return status;
  if (f->adapter && *found.adapter)
    return fail_usage("--model %s is an adapter already; give its base with --adapter", f->model);
  if (f->adapter && strlen(f->adapter) >= sizeof m->adapter)
    return fail_usage("--adapter is not a path");
  strcpy(m->base, found.base);
  strcpy(m->adapter, f->adapter ? f->adapter : found.adapter);
  return STATUS_CONTINUE;
}

static int open_model(sample_model *m) {
  if (ac_model_open(&m->model, m->base) != AC_OK) return fail_library();
  ac_model_get_info(m->model, &m->info);
  if (!m->info.weights) return fail("%s has no weights", m->base);
  if (ac_model_tokenizer(m->model, &m->tokenizer) != AC_OK) return fail_library();
  if (*m->adapter && ac_adapter_open(&m->lora, m->adapter) != AC_OK) return fail_library();
  if (*m->adapter) language_model_compare_base(m->adapter, m->base);
  if (m->flags->context > m->info.positions)
    return fail_usage("--context %" PRId64 " is more than the %" PRId64 " positions of %s",
                      m->flags->context, m->info.positions, m->base);
  return STATUS_CONTINUE;
}

static int open_device(sample_model *m) {
  const sample_flags *f = m->flags;
  const ac_device_desc desc = {
      .name = device_choose(f->device), .threads = (int)f->threads, .log = waiting_log};
  const ac_status opened = ac_device_open(&m->device, &desc);
  return opened == AC_OK ? STATUS_CONTINUE : fail_setup(opened);
}

/* As the choices of --base are: file, none, and blocks. */
static void set_base(int base, ac_model_graph_desc *graph) {
  static const ac_blocks blocks[] = {AC_BLOCKS_NONE, AC_BLOCKS_NONE, AC_BLOCKS_Q8_0,
                                     AC_BLOCKS_Q4_0, AC_BLOCKS_Q4_1, AC_BLOCKS_NF4};
  graph->base_as_in_file = base == 0;
  graph->base = blocks[base];
}

int sample_open_generator(sample_model *m, int64_t context) {
  const sample_flags *f = m->flags;
  const ac_generator_desc desc = {.context = f->context ? f->context : context,
                                  .memory = f->memory,
                                  .precision = (ac_precision)f->precision,
                                  .sampling = {.temperature = f->temperature,
                                               .top_k = f->top_k,
                                               .top_p = f->top_p < 1 ? f->top_p : 0,
                                               .min_p = f->min_p,
                                               .repetition_penalty = f->repetition_penalty,
                                               .seed = (uint64_t)f->seed}};
  ac_model_graph_desc graph = {.frozen = true, .lora = ac_adapter_desc(m->lora)};
  set_base(f->base, &graph);
  freed_memory_return();
  if (ac_generator_create_model(&m->generator, m->model, m->device, &desc, &graph) != AC_OK)
    return fail_library();
  if (m->lora && ac_adapter_load_session(m->lora, ac_generator_session(m->generator)) != AC_OK)
    return fail_library();
  return STATUS_CONTINUE;
}

/* ---- answers --------------------------------------------------------------------------------- */

static bool ends_text(const sample_model *m, uint32_t token) {
  for (int i = 0; i < m->info.end_count; i++)
    if ((int64_t)m->info.ends[i] == (int64_t)token) return true;
  return false;
}

static int append(char **text, size_t *length, const char *more, size_t bytes) {
  char *grown = realloc(*text, *length + bytes + 1);
  if (!grown) return fail("out of memory");
  memcpy(grown + *length, more, bytes);
  *length += bytes;
  grown[*length] = 0;
  *text = grown;
  return STATUS_CONTINUE;
}

/* An answer on its way. */
typedef struct answer {
  sample_decoder decoder;
  int64_t first; /* token of the text */
  char **text;   /* NULL: nobody asks */
  size_t length;
} answer;

static int put(sample_model *m, answer *a, bool last) {
  int64_t count;
  char *text;
  size_t bytes;
  const uint32_t *tokens = ac_generator_text(m->generator, &count);
  int status = sample_decoder_next(&a->decoder, tokens + a->first, (size_t)(count - a->first), last,
                                   &text, &bytes);
  if (status == STATUS_CONTINUE && text) status = sample_output_put(&m->output, text, bytes);
  if (status == STATUS_CONTINUE && text && a->text)
    status = append(a->text, &a->length, text, bytes);
  free(text);
  return status;
}

static int fail_next(const sample_model *m, ac_status status) {
  if (status == AC_ERROR_NOT_FINITE) return fail("%s: %s", m->base, ac_last_error());
  return fail_library();
}

/* Draws tokens until something ends the answer. */
static int continue_text(sample_model *m, answer *a) {
  ac_generator_info info;
  ac_generator_get_info(m->generator, &info);
  for (int64_t i = 0; i < m->flags->tokens; i++) {
    uint32_t token;
    int64_t length;
    ac_generator_text(m->generator, &length);
    m->ended = "context";
    if (length == info.context) return STATUS_CONTINUE;
    const ac_status drawn = ac_generator_next(m->generator, &token);
    if (drawn != AC_OK) return fail_next(m, drawn);
    m->written++;
    m->ended = "end";
    if (ends_text(m, token)) {
      if (ac_generator_rewind(m->generator, length) != AC_OK) return fail_library();
      return STATUS_CONTINUE;
    }
    const int status = put(m, a, false);
    if (status != STATUS_CONTINUE) return status;
    m->ended = "stop";
    if (m->output.stopped) return STATUS_CONTINUE;
  }
  m->ended = "tokens";
  return STATUS_CONTINUE;
}

int sample_answer(sample_model *m, const uint32_t *tokens, size_t count, char **text) {
  int64_t read;
  answer a = {.decoder = {.tokenizer = m->tokenizer}, .first = (int64_t)count, .text = text};
  if (text) *text = NULL;
  if (ac_generator_set_text(m->generator, tokens, (int64_t)count) != AC_OK) return fail_library();
  const double begin = seconds();
  const ac_status status_of_read = ac_generator_read(m->generator, &read);
  if (status_of_read != AC_OK) return fail_next(m, status_of_read);
  const double middle = seconds();
  int status = continue_text(m, &a);
  if (status == STATUS_CONTINUE) status = put(m, &a, true);
  if (status == STATUS_CONTINUE) status = sample_output_end(&m->output);
  m->read += read;
  m->read_seconds += middle - begin;
  m->written_seconds += seconds() - middle;
  if (status == STATUS_CONTINUE && text && !*text && !(*text = strdup("")))
    return fail("out of memory");
  if (text && *text) sample_output_cut(&m->flags->stops, *text);
  return status;
}

/* ---- a prompt -------------------------------------------------------------------------------- */

/* What people type counts with names of special tokens. */
static int encode_prompt(sample_model *m, ac_encoding *prompt) {
  const char *text = m->flags->prompt;
  const ac_encode_desc desc = {.add_special = true};
  if (ac_tokenizer_encode(m->tokenizer, text, strlen(text), &desc, prompt) != AC_OK)
    return fail_library();
  if (prompt->count) return STATUS_CONTINUE;
  if (m->info.begin < 0)
    return fail_usage("--prompt is missing: %s has no token that begins a text", m->base);
  prompt->ids = malloc(sizeof *prompt->ids);
  if (!prompt->ids) return fail("out of memory");
  prompt->ids[0] = (uint32_t)m->info.begin;
  prompt->count = 1;
  return STATUS_CONTINUE;
}

/* The caches have room for the prompt and its continuation, and for no more. */
static int continue_prompt(sample_model *m) {
  ac_encoding prompt = {0};
  int status = encode_prompt(m, &prompt);
  const int64_t most = m->flags->context ? m->flags->context : m->info.positions,
                count = (int64_t)prompt.count;
  if (status == STATUS_CONTINUE && count >= most)
    status = fail("the prompt has %" PRId64 " tokens, and the context is %" PRId64, count, most);
  if (status == STATUS_CONTINUE)
    status =
        sample_open_generator(m, count < most - m->flags->tokens ? count + m->flags->tokens : most);
  if (status == STATUS_CONTINUE) status = sample_answer(m, prompt.ids, prompt.count, NULL);
  ac_encoding_free(&prompt);
  return status;
}

/* ---- the end --------------------------------------------------------------------------------- */

static double rate(int64_t count, double time) {
  return time > 0 ? (double)count / time : 0;
}

static int put_json(const sample_model *m) {
  ac_generator_info info;
  ac_generator_get_info(m->generator, &info);
  json_t *json = json_pack(
      "{s:I, s:I, s:f, s:f, s:s, s:I, s:{s:I, s:I, s:I}, s:I}", "prompt_tokens",
      (json_int_t)m->read, "tokens", (json_int_t)m->written, "prompt_tokens_per_s",
      rate(m->read, m->read_seconds), "tokens_per_s", rate(m->written, m->written_seconds), "ended",
      m->ended ? m->ended : "", "context", (json_int_t)info.context, "planned_bytes", "parameters",
      (json_int_t)info.parameters, "caches", (json_int_t)info.caches, "total",
      (json_int_t)info.total, "peak_bytes", (json_int_t)ac_device_peak_bytes(m->device));
  const bool good = json && json_text_put(json, JSON_COMPACT | JSON_REAL_PRECISION(6), stderr);
  json_decref(json);
  return good ? STATUS_CONTINUE : fail("cannot write the counts as JSON");
}

int sample_language_model(const sample_flags *flags) {
  sample_model m = {.flags = flags};
  sample_output_begin(&m.output, &flags->stops);
  int status = find_model(&m);
  if (status == STATUS_CONTINUE) status = open_model(&m);
  if (status == STATUS_CONTINUE) status = open_device(&m);
  if (status == STATUS_CONTINUE) status = flags->chat ? sample_chat(&m) : continue_prompt(&m);
  if (status == STATUS_CONTINUE && flags->json) status = put_json(&m);
  sample_output_free(&m.output);
  ac_generator_free(m.generator);
  ac_adapter_close(m.lora);
  ac_model_free(m.model);
  ac_device_close(m.device);
  return status == STATUS_CONTINUE ? STATUS_DONE : status;
}
