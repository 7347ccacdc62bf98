/* `accrue eval`: loss and accuracy of a saved model on a dataset, and for classifiers of images the
 * confusion matrix. It needs the memory of forward passes alone. */
#include "program/commands.h"
#include "program/finite.h"
#include "common/json_text.h"
#include "common/message.h"
#include "program/setup.h"
#include "common/text.h"
#include "common/waiting.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096 };

typedef struct evaluation {
  setup setup; /* kind, model, data and device; no plan */
  const char *model;
  char path[PATH_BYTES];
  int split; /* 0: validation, 1: train */
  int64_t batch;
  bool json;
  ac_dataset *dataset;
  ac_evaluation result;
  int64_t classes;    /* 0: no confusion matrix */
  int64_t *confusion; /* [label, answer] */
  uint64_t bytes;     /* planned, of the larger of the two passes */
} evaluation;

/* ---- flags ----------------------------------------------------------------------------------- */

static void add_options(evaluation *e) {
  train_flags *f = &e->setup.flags;
  const option rows[] = {
      {"model", "FILE", OPTION_TEXT, &e->model,
       .help = "model.safetensors, or the folder it lies in", .fallback = "required"},
      {"split", "validation|train", OPTION_CHOICE, &e->split, .help = "which part of the data"},
      {"json", NULL, OPTION_SWITCH, &e->json, .help = "as a JSON object"},
  };
  const option run[] = {
      OPTION_DEVICE(&f->device),
      OPTION_THREADS(&f->threads),
      {"memory", "SIZE", OPTION_SIZE, &f->memory, .help = "budget for everything on the device",
       .fallback = "what it has"},
      {"batch", "N", OPTION_INTEGER, &e->batch, .help = "samples at a time, at most", .least = 1,
       .most = 1 << 20},
      {"precision", "f32|f16|bf16", OPTION_CHOICE, &f->precision,
       .help = "storage of activations and weights"},
  };
  const option fold[] = {
      {"fold", "I/K", OPTION_TEXT, &f->fold,
       .help = "the parts are those of training with this --fold", .fallback = ""},
  };
  OPTIONS_ADD(&e->setup.options, "Evaluation", rows);
  OPTIONS_ADD(&e->setup.options, "Evaluation", fold);
  OPTIONS_ADD(&e->setup.options, "Run", run);
}

/* The value of --model before the flags can be parsed: they depend on the kind of the model. */
static const char *find_model(int argc, char **argv) {
  const char *found = NULL;
  for (int i = 0; i < argc; i++) {
    if (!strncmp(argv[i], "--model=", 8)) found = argv[i] + 8;
    else if (!strcmp(argv[i], "--model") && i + 1 < argc) found = argv[i + 1];
  }
  return found;
}

static int set_path(evaluation *e, const char *model) {
  struct stat info;
  bool folder = stat(model, &info) == 0 && S_ISDIR(info.st_mode);
  int length = snprintf(e->path, sizeof e->path, folder ? "%s/model.safetensors" : "%s", model);
  return length > 0 && (size_t)length < sizeof e->path ? STATUS_CONTINUE
                                                       : fail("--model is no path");
}

static const model_kind *kind_of(const char *name) {
  for (int i = 0; model_kinds[i]; i++)
    if (!strcmp(model_kinds[i]->name, name)) return model_kinds[i];
  return NULL;
}

/* What the file says it is, unless the first argument says so. */
static int choose_kind(evaluation *e, int argc, char **argv, ac_model_file *file, int *words) {
  const char *name = ac_model_file_metadata(file, "accrue.model");
  *words = argc > 0 && argv[0][0] != '-';
  if (*words) name = argv[0];
  if (!name)
    return fail("%s does not say what kind of model it holds; name it first: accrue eval gpt ...",
                e->path);
  e->setup.kind = kind_of(name);
  if (!e->setup.kind) return fail_usage("unknown model %s; accrue eval --help lists them", name);
  return STATUS_CONTINUE;
}

static int parse(evaluation *e, int argc, char **argv, int words) {
  setup *s = &e->setup;
  if (!(s->model = calloc(1, s->kind->size))) return fail("out of memory");
  snprintf(s->command, sizeof s->command, "eval %s", s->kind->name);
  s->options = (options){.command = s->command,
                         .summary = "Says how well a saved model does, without training memory."};
  s->flags.device = "auto";
  s->kind->defaults(s->model, &s->flags);
  s->kind->add_options(s->model, &s->options);
  add_options(e);
  return options_parse(&s->options, argc - words, argv + words);
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct pass {
  ac_graph *graph;
  ac_plan *plan;
  ac_session *session;
} pass;

static void close_pass(pass *p) {
  ac_session_free(p->session);
  ac_plan_free(p->plan);
  ac_graph_free(p->graph);
}

static int open_pass(evaluation *e, ac_purpose purpose, pass *p) {
  setup *s = &e->setup;
  int64_t count = ac_dataset_count(e->dataset);
  ac_plan_desc desc = {.purpose = purpose,
                       .batch = e->batch < count ? e->batch : count,
                       .memory = s->flags.memory,
                       .precision = (ac_precision)s->flags.precision};
  ac_status status = ac_graph_create(&p->graph);
  if (status == AC_OK) {
    s->kind->build(s->model, p->graph);
    status = ac_plan_create(&p->plan, p->graph, s->device, &desc);
  }
  if (status == AC_OK) status = ac_session_create(&p->session, p->plan, 0);
  if (status == AC_OK) status = ac_session_load(p->session, e->path, s->kind->optional_prefix);
  if (status != AC_OK) return fail_library();
  uint64_t bytes = ac_plan_get_info(p->plan)->bytes.total;
  if (bytes > e->bytes) e->bytes = bytes;
  return STATUS_CONTINUE;
}

static int measure_loss(evaluation *e) {
  pass p = {0};
  int status = open_pass(e, AC_EVALUATE, &p);
  if (status == STATUS_CONTINUE &&
      ac_session_evaluate(p.session, e->dataset, 0, &e->result) != AC_OK)
    status = fail_library();
  if (status == STATUS_CONTINUE && !isfinite(e->result.loss))
    status = fail_not_finite(e->path, "its loss is");
  close_pass(&p);
  return status;
}

/* Samples [first, first + count) through the model: one answer each, the likeliest class. */
static ac_status classify(evaluation *e, const pass *p, int64_t first, int64_t count,
                          void *const *blocks, float *logits) {
  ac_feed feeds[AC_MAX_FIELDS];
  const int32_t *labels = NULL;
  int fields = ac_dataset_field_count(e->dataset);
  for (int f = 0; f < fields; f++) {
    const ac_field *field = ac_dataset_field(e->dataset, f);
    feeds[f] = (ac_feed){field->name, blocks[f]};
    if (!strcmp(field->name, "labels")) labels = blocks[f];
  }
  for (int64_t i = 0; i < count; i++) {
    void *into[AC_MAX_FIELDS];
    for (int f = 0; f < fields; f++) {
      const ac_field *field = ac_dataset_field(e->dataset, f);
      into[f] = (char *)blocks[f] + (size_t)(i * field->elements) * ac_dtype_bytes(field->dtype);
    }
    ac_sample_key key = {.index = first + i};
    ac_status status = ac_dataset_read(e->dataset, &key, into);
    if (status != AC_OK) return status;
  }
  ac_status status = ac_session_run(p->session, count, feeds, fields);
  if (status == AC_OK)
    status = ac_session_output(p->session, "logits", 0, count * e->classes, logits);
  for (int64_t i = 0; status == AC_OK && i < count; i++) {
    const float *row = logits + i * e->classes;
    int64_t best = 0;
    for (int64_t c = 1; c < e->classes; c++)
      if (row[c] > row[best]) best = c;
    e->confusion[labels[i] * e->classes + best]++;
  }
  return status;
}

static int run_classifier(evaluation *e, const pass *p, void **blocks, float **logits) {
  int64_t batch = ac_plan_get_info(p->plan)->micro_batch, count = ac_dataset_count(e->dataset);
  for (int f = 0; f < ac_dataset_field_count(e->dataset); f++) {
    const ac_field *field = ac_dataset_field(e->dataset, f);
    blocks[f] = malloc((size_t)(batch * field->elements) * ac_dtype_bytes(field->dtype));
    if (!blocks[f]) return fail("out of memory");
  }
  *logits = malloc((size_t)(batch * e->classes) * sizeof **logits);
  e->confusion = calloc((size_t)(e->classes * e->classes), sizeof *e->confusion);
  if (!*logits || !e->confusion) return fail("out of memory");
  for (int64_t first = 0; first < count; first += batch) {
    int64_t piece = count - first < batch ? count - first : batch;
    if (classify(e, p, first, piece, blocks, *logits) != AC_OK) return fail_library();
  }
  return STATUS_CONTINUE;
}

static int count_confusion(evaluation *e) {
  pass p = {0};
  void *blocks[AC_MAX_FIELDS] = {NULL};
  float *logits = NULL;
  int status = open_pass(e, AC_PREDICT, &p);
  if (status == STATUS_CONTINUE) status = run_classifier(e, &p, blocks, &logits);
  for (int f = 0; f < AC_MAX_FIELDS; f++) free(blocks[f]);
  free(logits);
  close_pass(&p);
  return status;
}

/* ---- results --------------------------------------------------------------------------------- */

static void print_confusion(const evaluation *e) {
  printf("\n%8s", "label");
  for (int64_t c = 0; c < e->classes; c++) printf(" %6" PRId64, c);
  printf("   right\n");
  for (int64_t label = 0; label < e->classes; label++) {
    const int64_t *row = e->confusion + label * e->classes;
    int64_t total = 0;
    printf("%8" PRId64, label);
    for (int64_t c = 0; c < e->classes; c++) {
      printf(" %6" PRId64, row[c]);
      total += row[c];
    }
    if (total) printf(" %5.1f %%\n", 100 * (double)row[label] / (double)total);
    else printf("       -\n");
  }
}

static void print_text(const evaluation *e) {
  const setup *s = &e->setup;
  message_put(stdout, "model        %s: %s\n", s->kind->name, e->path);
  printf("data         %s of the %s split\n", text_count(ac_dataset_count(e->dataset)).text,
         e->split ? "train" : "validation");
  printf("loss         %.6f nats per %s\n", e->result.loss, s->data.unit);
  printf("accuracy     %.2f %%\n", 100 * e->result.accuracy);
  printf("memory       %s on %s\n", text_bytes(e->bytes).text, ac_device_get_info(s->device)->id);
  if (e->classes && e->classes <= 30) print_confusion(e);
}

static int print_json(const evaluation *e) {
  json_t *rows = json_array();
  for (int64_t label = 0; label < e->classes; label++) {
    json_t *row = json_array();
    for (int64_t c = 0; c < e->classes; c++)
      json_array_append_new(row, json_integer((json_int_t)e->confusion[label * e->classes + c]));
    json_array_append_new(rows, row);
  }
  json_t *object =
      json_pack("{s:s, s:s, s:s, s:I, s:f, s:f, s:I, s:s, s:o}", "model", e->setup.kind->name,
                "file", e->path, "split", e->split ? "train" : "validation", "samples",
                (json_int_t)ac_dataset_count(e->dataset), "loss", e->result.loss, "accuracy",
                e->result.accuracy, "planned_bytes", (json_int_t)e->bytes, "device",
                ac_device_get_info(e->setup.device)->id, "confusion", rows);
  bool good = object && json_text_put(object, JSON_INDENT(2), stdout);
  json_decref(object);
  return good ? STATUS_DONE : fail("cannot write the result");
}

/* ---- the command ----------------------------------------------------------------------------- */

static int open_all(evaluation *e, int argc, char **argv) {
  setup *s = &e->setup;
  const char *model = find_model(argc, argv);
  if (!model) return fail_usage("--model is missing: a file that accrue train has written");
  int status = set_path(e, model), words;
  if (status != STATUS_CONTINUE) return status;
  ac_model_file *file = NULL;
  if (ac_model_file_open(&file, e->path) != AC_OK) return fail_library();
  status = choose_kind(e, argc, argv, file, &words);
  if (status == STATUS_CONTINUE) status = parse(e, argc, argv, words);
  s->data.undivided = s->flags.fold != NULL;
  if (status == STATUS_CONTINUE)
    status = s->kind->prepare(s->model, &s->options, file, e->path, &s->data);
  ac_model_file_close(file);
  if (status == STATUS_CONTINUE && s->flags.fold) status = data_fold(&s->data, s->flags.fold);
  if (status != STATUS_CONTINUE) return status;
  e->dataset = e->split ? s->data.train : s->data.validation;
  const ac_device_desc device = {
      .name = s->flags.device, .threads = (int)s->flags.threads, .log = waiting_log};
  const ac_status opened = ac_device_open(&s->device, &device);
  return opened == AC_OK ? STATUS_CONTINUE : fail_setup(opened);
}

static int put_general_help(help_form form) {
  help h = help_begin(form, "eval", "[MODEL] --model FILE --data PATH [flags]",
                      "Says how well a saved model does: its loss and accuracy, and for images the "
                      "confusion matrix.\nWhat MODEL is stands in files that accrue train has "
                      "written.");
  help_commands(&h, "MODELS");
  for (int i = 0; model_kinds[i]; i++)
    help_put_command(&h, model_kinds[i]->name, model_kinds[i]->what);
  help_paragraph(&h, "accrue eval MODEL --help lists a model's flags.");
  help_end(&h);
  return STATUS_DONE;
}

/* Help without a file is that of the model that the first argument names. STATUS_CONTINUE: none is
 * asked for, or the file says of what. */
static int give_help(evaluation *e, int argc, char **argv) {
  help_form form = HELP_NONE;
  for (int i = 0; i < argc && !form; i++) form = help_asked(argv[i]);
  if (!form || find_model(argc, argv)) return STATUS_CONTINUE;
  e->setup.kind = kind_of(argv[0]);
  return e->setup.kind ? parse(e, argc, argv, 1) : put_general_help(form);
}

int eval_main(int argc, char **argv) {
  evaluation e = {.batch = 256};
  int status = give_help(&e, argc, argv);
  if (status == STATUS_CONTINUE) status = open_all(&e, argc, argv);
  if (status == STATUS_CONTINUE) status = measure_loss(&e);
  bool images = status == STATUS_CONTINUE && e.setup.kind->classes;
  if (images) e.classes = e.setup.kind->classes(e.setup.model);
  if (images) status = count_confusion(&e);
  if (status == STATUS_CONTINUE) {
    if (e.json) status = print_json(&e);
    else {
      print_text(&e);
      status = STATUS_DONE;
    }
  }
  free(e.confusion);
  setup_close(&e.setup);
  return status;
}
