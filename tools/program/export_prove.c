/* What `accrue export` has written is the model that was trained. Of a whole model three things are
 * checked, so that each fault has one that finds it:
 *
 *   elements   each is the merged one, rounded: a wrong row, a flipped bit
 *   merging    the merged weights, in floats, give the trained model's logits: a wrong factor
 *   the file   its logits are those of its own weights in the trained model: wrong settings, such
 *              as another base of rotary positions
 *
 * For the last two the trained model itself takes other weights, its adapter becomes zeros, and
 * only the rounding of sums remains. Of an adapter the trained model takes what was written, and
 * its logits have to stay. */
#include "program/export_files.h"

#include "common/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_whole(const exporter *e) {
  return e->to == EXPORT_FOLDER || e->to == EXPORT_GGUF;
}

static int64_t logit_count(const exporter *e) {
  return e->text.samples * e->text.context * e->info.vocabulary;
}

static bool is_of_adapter(const char *name) {
  return strstr(name, ".lora_") != NULL;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* A part of a parameter: as the file has it, and as the trained model has it. */
typedef struct part {
  ac_tensor_info info;
  int64_t elements, rows_at_once, columns;
  float *file, *trained; /* [rows_at_once, columns] */
} part;

static int make_part(part *p, const exporter *e, int index) {
  enum { PIECE = 1 << 15 };
  if (ac_graph_parameter(e->trained.graph, index, &p->info) != AC_OK) return fail_library();
  p->elements = 1;
  for (int d = 0; d < p->info.rank; d++) p->elements *= p->info.shape[d];
  p->columns = p->info.rank ? p->info.shape[p->info.rank - 1] : 1;
  /* Blocks of a weight that is stored transposed are of 32 rows. */
  p->rows_at_once = p->columns < PIECE / 32 ? PIECE / p->columns / 32 * 32 : 32;
  const size_t bytes = (size_t)(p->rows_at_once * p->columns) * sizeof *p->file;
  p->file = malloc(bytes);
  p->trained = malloc(bytes);
  return p->file && p->trained ? STATUS_CONTINUE : fail("out of memory");
}

static void free_part(part *p) {
  free(p->file);
  free(p->trained);
  *p = (part){.file = NULL};
}

/* Calls a function for whole rows of each parameter of the base. */
typedef int for_rows(exporter *e, ac_model_file *file, part *p, int64_t first, int64_t count);
static int for_all(exporter *e, ac_model_file *file, for_rows *call) {
  int status = STATUS_CONTINUE;
  const int count = ac_graph_parameter_count(e->trained.graph);
  for (int i = 0; i < count && status == STATUS_CONTINUE; i++) {
    part p = {.file = NULL};
    status = make_part(&p, e, i);
    const int64_t most = p.rows_at_once * p.columns;
    for (int64_t at = 0; at < p.elements && status == STATUS_CONTINUE; at += most)
      if (!is_of_adapter(p.info.name))
        status = call(e, file, &p, at, p.elements - at < most ? p.elements - at : most);
    free_part(&p);
  }
  return status;
}

static int set(const exporter *e, const char *name, int64_t first, int64_t count,
               const float *data) {
  return ac_session_set_parameter(e->trained.session, name, first, count, data) == AC_OK
             ? STATUS_CONTINUE
             : fail_library();
}

/* The adapter adds nothing any more: B, and changes of magnitudes, are zeros. */
static int clear_adapter(const exporter *e) {
  int status = STATUS_CONTINUE;
  const int count = ac_graph_parameter_count(e->trained.graph);
  for (int i = 0; i < count && status == STATUS_CONTINUE; i++) {
    part p = {.file = NULL};
    status = make_part(&p, e, i);
    const bool zero =
        status == STATUS_CONTINUE && is_of_adapter(p.info.name) && !strstr(p.info.name, ".lora_A.");
    float *zeros = zero ? calloc((size_t)p.elements, sizeof *zeros) : NULL;
    if (zero) status = zeros ? set(e, p.info.name, 0, p.elements, zeros) : fail("out of memory");
    free(zeros);
    free_part(&p);
  }
  return status;
}

/* ---- elements -------------------------------------------------------------------------------- */

/* How far an element may be from what was rounded, as a part of the largest magnitude of its block.
 * Scales of blocks, and minima, are rounded to f16 as well. */
static double step_of_blocks(ac_blocks blocks) {
  switch (blocks) {
  case AC_BLOCKS_Q8_0:
    return 0.5 / 127 + 0x1p-11; /* half a step */
  case AC_BLOCKS_Q4_1:
    return 1.0 / 15 + 3 * 0x1p-11;
  default:
    return 1.0 / 8 + 0x1p-11; /* a whole one, at the end that the largest is not at */
  }
}

/* *transposed: blocks are along columns. */
static double step_of(const exporter *e, ac_model_file *file, int index, bool *transposed) {
  const ac_dtype dtype = ac_model_file_tensor(file, index)->dtype;
  const ac_blocks blocks = ac_model_file_blocks(file, index);
  *transposed = false;
  if (dtype == AC_F16) return 0x1p-11;
  if (dtype == AC_BF16) return 0x1p-8;
  if (blocks) return step_of_blocks(blocks);
  *transposed = e->to == EXPORT_GGUF && !strcmp(e->info.family, "gpt2") &&
                (e->storage >= AC_EXPORT_Q8_0 || e->info.gguf) &&
                ac_model_file_tensor(file, index)->rank == 2;
  if (!*transposed) return 0x1p-23;
  return step_of_blocks(e->storage == AC_EXPORT_Q8_0 ? AC_BLOCKS_Q8_0 : AC_BLOCKS_Q4_0);
}

/* `count` elements, `stride` apart. */
static int check_block(const part *p, int64_t first, int64_t stride, int64_t count, double step) {
  double most = 0;
  for (int64_t i = 0; i < count; i++) {
    const double size = fabs((double)p->trained[first + i * stride]);
    if (size > most) most = size;
  }
  for (int64_t i = 0; i < count; i++) {
    const double file = p->file[first + i * stride], trained = p->trained[first + i * stride];
    if (!(fabs(file - trained) <= step * most + 1e-7))
      return fail("%s has %g in the file and %g in the trained model: more than rounding explains; "
                  "nothing was kept",
                  p->info.name, file, trained);
  }
  return STATUS_CONTINUE;
}

static int check_elements(const exporter *e, ac_model_file *file, const part *p, int64_t count) {
  bool transposed;
  const double step = step_of(e, file, ac_model_file_find(file, p->info.name), &transposed);
  const int64_t rows = count / p->columns;
  int status = STATUS_CONTINUE;
  for (int64_t at = 0; !transposed && at < count && status == STATUS_CONTINUE; at += 32)
    status = check_block(p, at, 1, count - at < 32 ? count - at : 32, step);
  for (int64_t row = 0; transposed && row < rows; row += 32)
    for (int64_t c = 0; c < p->columns && status == STATUS_CONTINUE; c++)
      status =
          check_block(p, row * p->columns + c, p->columns, rows - row < 32 ? rows - row : 32, step);
  return status;
}

static int read_file(ac_model_file *file, part *p, int64_t first, int64_t count) {
  const int index = ac_model_file_find(file, p->info.name);
  if (index < 0) return fail("the file lacks %s; nothing was kept", p->info.name);
  return ac_model_file_read(file, index, first, count, p->file) == AC_OK ? STATUS_CONTINUE
                                                                         : fail_library();
}

/* Whole rows are merged, so each weight is read before it changes. */
static int take_merged(exporter *e, ac_model_file *file, part *p, int64_t first, int64_t count) {
  int status = read_file(file, p, first, count);
  if (status != STATUS_CONTINUE) return status;
  if (export_read_merged(e, p->info.name, first, count, p->trained) != AC_OK) return fail_library();
  status = check_elements(e, file, p, count);
  return status == STATUS_CONTINUE ? set(e, p->info.name, first, count, p->trained) : status;
}

static int take_written(exporter *e, ac_model_file *file, part *p, int64_t first, int64_t count) {
  const int status = read_file(file, p, first, count);
  return status == STATUS_CONTINUE ? set(e, p->info.name, first, count, p->file) : status;
}

/* ---- a whole model --------------------------------------------------------------------------- */

static int logits_of_written(exporter *e, ac_model *written, float **logits) {
  proof_model model;
  int status = proof_model_open(&model, written, &(ac_model_graph_desc){.context = 0}, &e->text,
                                e->open_device);
  if (status == STATUS_CONTINUE && ac_model_load_session(written, model.session) != AC_OK)
    status = fail_library();
  if (status == STATUS_CONTINUE)
    status = proof_logits(logits, &model, &e->text, e->info.vocabulary);
  proof_model_close(&model);
  return status;
}

static int logits_of_trained(exporter *e, float **logits) {
  return proof_logits(logits, &e->trained, &e->text, e->info.vocabulary);
}

static int judge(const exporter *e, const proof_difference *d, const char *what) {
  if (!d->finite) return fail("logits are not finite; nothing was kept");
  if (d->largest <= e->allowed) return STATUS_CONTINUE;
  return fail("logits of %s differ by up to %.3g, and the rounding of sums explains %.3g; nothing "
              "was kept",
              what, d->largest, e->allowed);
}

/* The trained model with merged weights, in floats. */
static int check_merging(exporter *e, ac_model_file *file) {
  float *merged = NULL;
  int status = for_all(e, file, take_merged);
  if (status == STATUS_CONTINUE) status = clear_adapter(e);
  if (status == STATUS_CONTINUE) status = logits_of_trained(e, &merged);
  if (status == STATUS_CONTINUE) {
    const proof_difference d = proof_compare(e->logits, merged, logit_count(e));
    e->merging = d.largest;
    e->allowed = proof_allowed(&e->info, d.logit);
    status = judge(e, &d, "the model with its adapter merged");
  }
  free(merged);
  return status;
}

static int check_file(exporter *e, ac_model *written) {
  float *rounded = NULL, *of_file = NULL;
  int status = for_all(e, ac_model_weights(written), take_written);
  if (status == STATUS_CONTINUE) status = logits_of_trained(e, &rounded);
  proof_model_close(&e->trained); /* one model is in memory at a time */
  if (status == STATUS_CONTINUE) status = logits_of_written(e, written, &of_file);
  if (status == STATUS_CONTINUE) {
    const proof_difference d = proof_compare(rounded, of_file, logit_count(e));
    e->total = proof_compare(e->logits, of_file, logit_count(e));
    e->beyond = d.largest;
    status = judge(e, &d, "the file");
  }
  free(rounded);
  free(of_file);
  return status;
}

static int prove_whole(exporter *e) {
  ac_model *written;
  ac_model_info info;
  if (ac_model_open(&written, e->temporary) != AC_OK) return fail_library();
  ac_model_get_info(written, &info);
  int status = info.vocabulary == e->info.vocabulary && info.weights
                   ? check_merging(e, ac_model_weights(written))
                   : fail("the file is of another model; nothing was kept");
  if (status == STATUS_CONTINUE) status = check_file(e, written);
  ac_model_free(written);
  return status;
}

/* ---- an adapter ------------------------------------------------------------------------------ */

static int set_matrix(exporter *e, const export_layer *layer, const char *which, int64_t count,
                      const float *data) {
  char name[sizeof layer->name + 32];
  snprintf(name, sizeof name, "%s.%s.weight", layer->name, which);
  return set(e, name, 0, count, data);
}

static bool is_permuted(ac_model_file *file, int index) {
  const char *architecture = ac_model_file_metadata(file, "general.architecture");
  const char *name = ac_model_file_tensor(file, index)->name;
  return architecture && !strcmp(architecture, "llama") &&
         (strstr(name, ".attn_q.") || strstr(name, ".attn_k."));
}

/* B of a GGUF file: rows of heads back in their order, and the file's factor in the place of the
 * trained model's. */
static int take_b(exporter *e, ac_model_file *file, int index, const export_layer *layer) {
  const int64_t size = e->info.head_size, half = size / 2, rank = layer->rank,
                count = layer->out * rank;
  const char *text = ac_model_file_metadata(file, "adapter.lora.alpha");
  const double alpha = text ? strtod(text, NULL) : 0;
  const float factor = (float)(alpha / (double)rank / layer->scale);
  const bool permuted = is_permuted(file, index);
  float *stored = malloc((size_t)count * sizeof *stored), *b = malloc((size_t)count * sizeof *b);
  int status = stored && b ? STATUS_CONTINUE : fail("out of memory");
  if (status == STATUS_CONTINUE && ac_model_file_read(file, index, 0, count, stored) != AC_OK)
    status = fail_library();
  for (int64_t row = 0; row < layer->out && status == STATUS_CONTINUE; row++) {
    const int64_t place = row % size,
                  to = permuted ? row - place + place % 2 * half + place / 2 : row;
    for (int64_t k = 0; k < rank; k++) b[to * rank + k] = factor * stored[row * rank + k];
  }
  if (status == STATUS_CONTINUE) status = set_matrix(e, layer, "lora_B", count, b);
  free(stored);
  free(b);
  return status;
}

static int take_layer(exporter *e, ac_model_file *file, const export_layer *layer, int index) {
  const int64_t count = layer->rank * layer->in;
  float *a = malloc((size_t)count * sizeof *a);
  int status = a ? STATUS_CONTINUE : fail("out of memory");
  if (status == STATUS_CONTINUE && ac_model_file_read(file, 2 * index, 0, count, a) != AC_OK)
    status = fail_library();
  if (status == STATUS_CONTINUE) status = set_matrix(e, layer, "lora_A", count, a);
  free(a);
  return status == STATUS_CONTINUE ? take_b(e, file, 2 * index + 1, layer) : status;
}

static int take_layers(exporter *e, ac_model_file *file, const export_layers *layers) {
  int status = ac_model_file_tensor_count(file) == 2 * layers->count
                   ? STATUS_CONTINUE
                   : fail("the file has another number of adapters; nothing was kept");
  for (int i = 0; i < layers->count && status == STATUS_CONTINUE; i++)
    status = take_layer(e, file, &layers->list[i], i);
  return status;
}

static int take_gguf(exporter *e) {
  ac_model_file *file;
  export_layers layers;
  int status = export_layers_read(&layers, e->found.adapter, &e->lora);
  if (status == STATUS_CONTINUE && ac_model_file_open(&file, e->temporary) != AC_OK)
    status = fail_library();
  else if (status == STATUS_CONTINUE) {
    status = take_layers(e, file, &layers);
    ac_model_file_close(file);
  }
  export_layers_free(&layers);
  return status;
}

static bool same_description(const ac_lora_desc *a, const ac_lora_desc *b) {
  bool same = a->rank_stabilised == b->rank_stabilised && a->dora == b->dora &&
              a->module_count == b->module_count;
  for (int i = 0; same && i < a->module_count; i++)
    same = !strcmp(a->modules[i].name, b->modules[i].name) &&
           a->modules[i].rank == b->modules[i].rank && a->modules[i].alpha == b->modules[i].alpha;
  return same;
}

static int take_peft(exporter *e) {
  ac_adapter *written;
  if (ac_adapter_open(&written, e->temporary) != AC_OK) return fail_library();
  int status = same_description(ac_adapter_desc(written), ac_adapter_desc(e->adapter))
                   ? STATUS_CONTINUE
                   : fail("the adapter has another description; nothing was kept");
  if (status == STATUS_CONTINUE && ac_adapter_load_session(written, e->trained.session) != AC_OK)
    status = fail_library();
  ac_adapter_close(written);
  return status;
}

/* What was there before must not be taken for what was read. */
static int prove_adapter(exporter *e) {
  float *logits = NULL;
  int status = clear_adapter(e);
  if (status == STATUS_CONTINUE) status = e->to == EXPORT_ADAPTER ? take_peft(e) : take_gguf(e);
  if (status == STATUS_CONTINUE) status = logits_of_trained(e, &logits);
  if (status == STATUS_CONTINUE) {
    e->total = proof_compare(e->logits, logits, logit_count(e));
    e->allowed = proof_allowed(&e->info, e->total.logit);
    status = judge(e, &e->total, "the adapter that was written");
  }
  free(logits);
  return status;
}

int export_prove(exporter *e) {
  return is_whole(e) ? prove_whole(e) : prove_adapter(e);
}
