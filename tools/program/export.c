/* `accrue export`: writes a language model for other programs. It is written under another name,
 * read back, and its logits are compared with those of the model as it was trained, before it gets
 * its own. */
#include "program/commands.h"
#include "program/export_files.h"
#include "common/device_choice.h"
#include "common/flag_rules.h"
#include "common/json_text.h"
#include "common/message.h"
#include "common/options.h"
#include "common/text.h"
#include "common/waiting.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const forms[] = {"folder", "adapter", "gguf", "gguf-adapter"};
static const char *const storages[] = {"as it is", "f32", "f16", "bf16", "q8_0", "q4_0"};

/* ---- flags ----------------------------------------------------------------------------------- */

static bool is_whole(const exporter *e) {
  return e->to == EXPORT_FOLDER || e->to == EXPORT_GGUF;
}

static int parse(exporter *e, int argc, char **argv) {
  options o = {.command = "export",
               .summary = "Writes a language model for other programs, and proves the files."};
  const option model[] = {
      FLAG("model", OPTION_TEXT, &e->path),
      FLAG("to", OPTION_CHOICE, &e->to),
      FLAG("out", OPTION_TEXT, &e->out),
      FLAG("merge", OPTION_SWITCH, &e->merge),
      FLAG("quantise", OPTION_CHOICE, &e->storage, .fallback = "as the base is stored"),
      FLAG("data", OPTION_TEXT, &e->data,
           .fallback = "validation samples of the run, or a text that is built in"),
      FLAG("overwrite", OPTION_SWITCH, &e->overwrite),
  };
  const option run[] = {
      FLAG("device", OPTION_TEXT, &e->device),
      FLAG("threads", OPTION_INTEGER, &e->threads),
      FLAG("json", OPTION_SWITCH, &e->json),
  };
  OPTIONS_ADD_FILED(&o, model);
  OPTIONS_ADD_FILED(&o, run);
  int status = options_parse(&o, argc, argv);
  if (status == STATUS_CONTINUE) status = flag_rules_check(&o);
  if (status != STATUS_CONTINUE) return status;
  if (!e->path) return fail_usage("--model is missing: a run, a folder, or a GGUF file");
  if (!options_given(&o, "to"))
    return fail_usage("--to is missing: folder, adapter, gguf or gguf-adapter");
  if (!e->out) return fail_usage("--out is missing: what is written");
  e->storage = options_given(&o, "quantise") ? e->storage + 1 : AC_EXPORT_AS_IT_IS;
  if (e->storage >= AC_EXPORT_Q8_0 && e->to != EXPORT_GGUF)
    return fail_usage("--quantise %s is for --to gguf: only GGUF files hold such blocks",
                      storages[e->storage]);
  if (e->storage && !is_whole(e))
    return fail_usage("--quantise has no meaning with --to %s, which is small anyway",
                      forms[e->to]);
  return STATUS_CONTINUE;
}

static int check_adapter(const exporter *e) {
  const bool adapter = *e->found.adapter;
  if (!is_whole(e) && !adapter)
    return fail_usage("--to %s: %s is a whole model, without an adapter", forms[e->to], e->path);
  if (e->merge && !adapter)
    return fail_usage("--merge: %s is a whole model, without an adapter", e->path);
  if (e->merge && !is_whole(e))
    return fail_usage("--merge adds the adapter to its base, and --to %s writes it without that",
                      forms[e->to]);
  if (is_whole(e) && adapter && !e->merge)
    return fail_usage("%s is an adapter: --merge adds it to its base; --to adapter or gguf-adapter "
                      "writes it alone",
                      e->path);
  return STATUS_CONTINUE;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* An adapter was trained next to weights as they were in memory. */
static void find_blocks(exporter *e) {
  static const struct {
    const char *name;
    ac_blocks blocks;
  } all[] = {{"q8_0", AC_BLOCKS_Q8_0},
             {"q4_0", AC_BLOCKS_Q4_0},
             {"q4_1", AC_BLOCKS_Q4_1},
             {"nf4", AC_BLOCKS_NF4}};
  char path[MODEL_PATH_BYTES + 32];
  ac_model_file *file;
  snprintf(path, sizeof path, "%s/adapter_model.safetensors", e->found.adapter);
  if (!e->adapter || ac_model_file_open(&file, path) != AC_OK) return;
  const char *name = ac_model_file_metadata(file, "accrue.base_storage");
  for (size_t i = 0; name && i < sizeof all / sizeof *all; i++)
    if (!strcmp(all[i].name, name)) e->blocks = all[i].blocks, e->blocks_name = all[i].name;
  ac_model_file_close(file);
}

static int open_model(exporter *e) {
  int status = language_model_find("model", e->path, &e->found);
  if (status == STATUS_CONTINUE) status = check_adapter(e);
  if (status != STATUS_CONTINUE) return status;
  if (ac_model_open(&e->base, e->found.base) != AC_OK) return fail_library();
  ac_model_get_info(e->base, &e->info);
  if (!e->info.weights) return fail("%s has a configuration and no weights", e->found.base);
  if (!*e->found.adapter) return STATUS_CONTINUE;
  if (ac_adapter_open(&e->adapter, e->found.adapter) != AC_OK) return fail_library();
  language_model_compare_base(e->found.adapter, e->found.base);
  e->lora = *ac_adapter_desc(e->adapter);
  e->lora.dropout = 0;
  find_blocks(e);
  return STATUS_CONTINUE;
}

static int open_device(exporter *e) {
  const ac_device_desc device = {
      .name = device_choose(e->device), .threads = (int)e->threads, .log = waiting_log};
  const ac_status status = ac_device_open(&e->open_device, &device);
  return status == AC_OK ? STATUS_CONTINUE : fail_setup(status);
}

static int load_trained(const exporter *e, const proof_model *model) {
  if (ac_model_load_session(e->base, model->session) != AC_OK) return fail_library();
  if (e->adapter && ac_adapter_load_session(e->adapter, model->session) != AC_OK)
    return fail_library();
  return STATUS_CONTINUE;
}

/* The model as it was trained: its base with its adapter. Its weights are floats, which can take
 * others later; those of a base in blocks are what the blocks decode to. */
static int open_trained(exporter *e) {
  ac_model_graph_desc desc = {.lora = e->adapter ? &e->lora : NULL};
  proof_model blocks = {.graph = NULL};
  int status = proof_model_open(&e->trained, e->base, &desc, &e->text, e->open_device);
  desc.base = e->blocks;
  if (status == STATUS_CONTINUE && e->blocks) {
    status = proof_model_open(&blocks, e->base, &desc, &e->text, e->open_device);
    if (status == STATUS_CONTINUE) status = load_trained(e, &blocks);
    if (status == STATUS_CONTINUE)
      status = proof_logits(&e->logits, &blocks, &e->text, e->info.vocabulary);
    if (status == STATUS_CONTINUE) status = proof_model_copy(&e->trained, &blocks);
    proof_model_close(&blocks);
    return status;
  }
  if (status == STATUS_CONTINUE) status = load_trained(e, &e->trained);
  if (status == STATUS_CONTINUE)
    status = proof_logits(&e->logits, &e->trained, &e->text, e->info.vocabulary);
  return status;
}

/* ---- what is said ---------------------------------------------------------------------------- */

static int put_json(const exporter *e) {
  json_t *json = json_pack(
      "{s:o, s:s, s:s, s:I, s:b, s:s?, s:o, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "out",
      json_text_name(e->out), "to", forms[e->to], "storage", storages[e->storage], "bytes",
      (json_int_t)e->bytes, "merged", e->merge, "base", e->blocks_name, "data",
      e->of_run ? json_text_name(e->compared_on)
      : e->data ? json_text_name(e->data)
                : json_null(),
      "positions", (json_int_t)(e->text.samples * e->text.context), "largest_logit", e->total.logit,
      "largest_difference", e->total.largest, "mean_difference", e->total.mean, "merging",
      e->merging, "beyond_storage", e->beyond, "allowed", e->allowed);
  const bool good = json && json_text_put(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9), stdout);
  json_decref(json);
  return good ? STATUS_DONE : fail("cannot write the result");
}

static int put_result(const exporter *e) {
  if (e->json) return put_json(e);
  message_put(stdout, "%s: %s of %s\n", e->out, text_bytes(e->bytes).text, forms[e->to]);
  if (e->merge && e->blocks_name)
    printf("merged into the base in %s, with which the adapter was trained\n", e->blocks_name);
  message_put(stdout,
              "logits at %" PRId64 " positions%s%s, the largest %.3g: they differ from the "
              "trained model's by at most %.2g, root mean square %.2g\n",
              e->text.samples * e->text.context,
              e->validates ? " of validation samples of "
              : e->of_run  ? " of samples of "
                           : "",
              e->of_run ? e->compared_on : "", e->total.logit, e->total.largest, e->total.mean);
  if (is_whole(e))
    printf("without the rounding of weights by at most %.2g; the rounding of sums explains %.2g\n",
           fmax(e->merging, e->beyond), e->allowed);
  return STATUS_DONE;
}

static void close_all(exporter *e) {
  proof_model_close(&e->trained);
  ac_device_close(e->open_device);
  proof_text_free(&e->text);
  free(e->logits);
  free(e->row);
  ac_adapter_close(e->adapter);
  ac_model_free(e->base);
}

int export_main(int argc, char **argv) {
  exporter e = {.device = "auto"};
  int status = parse(&e, argc, argv);
  if (status == STATUS_CONTINUE) status = open_model(&e);
  if (status == STATUS_CONTINUE) status = export_check_out(&e);
  if (status == STATUS_CONTINUE && !e.data) status = export_take_samples(&e);
  if (status == STATUS_CONTINUE && !e.of_run) status = proof_text_make(&e.text, e.base, e.data);
  if (status == STATUS_CONTINUE) status = open_device(&e);
  if (status == STATUS_CONTINUE) status = open_trained(&e);
  if (status == STATUS_CONTINUE) status = export_write(&e);
  if (status == STATUS_CONTINUE) {
    status = export_prove(&e);
    if (status == STATUS_CONTINUE) status = export_keep(&e);
    else export_remove(&e);
  }
  if (status == STATUS_CONTINUE) status = put_result(&e);
  close_all(&e);
  return status;
}
