#include "program/saved_model.h"

#include "common/device_choice.h"
#include "common/flag_rules.h"
#include "common/freed_memory.h"
#include "common/json_file.h"
#include "common/message.h"
#include "common/waiting.h"
#include "program/language_model.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what it is ------------------------------------------------------------------------------ */

/* The value of --model before the flags can be parsed: they depend on the kind of the model. */
static const char *find_model(int argc, char **argv) {
  const char *found = NULL;
  for (int i = 0; i < argc; i++) {
    if (!strncmp(argv[i], "--model=", 8)) found = argv[i] + 8;
    else if (!strcmp(argv[i], "--model") && i + 1 < argc) found = argv[i + 1];
  }
  return found;
}

static const model_kind *kind_of(const char *name) {
  for (int i = 0; model_kinds[i]; i++)
    if (!strcmp(model_kinds[i]->name, name)) return model_kinds[i];
  return NULL;
}

/* The kind that the file names, unless the first argument names one. */
static int choose_kind(saved_model *m, int argc, char **argv, ac_model_file *file, int *words) {
  const char *name = ac_model_file_metadata(file, "accrue.model"), *verb = m->command->name;
  *words = argc > 0 && argv[0][0] != '-';
  if (*words) name = argv[0];
  if (!name)
    return fail("%s does not say what kind of model it holds; name it first: accrue %s %s ...",
                m->path, verb, m->command->images_alone ? "resnet" : "gpt");
  m->setup.kind = kind_of(name);
  if (!m->setup.kind)
    return fail_usage("unknown model %s; accrue %s --help lists them", name, verb);
  return STATUS_CONTINUE;
}

static int check_kind(const saved_model *m) {
  if (!m->command->images_alone || m->setup.kind->classes) return STATUS_CONTINUE;
  return fail_usage("accrue %s is for models of images, and %s holds a %s; see accrue sample",
                    m->command->name, m->path, m->setup.kind->name);
}

/* ---- flags ----------------------------------------------------------------------------------- */

static void add_run_options(saved_model *m, options *o) {
  train_flags *f = &m->setup.flags;
  const option run[] = {
      FLAG("device", OPTION_TEXT, &f->device),
      FLAG("threads", OPTION_INTEGER, &f->threads),
      FLAG("memory", OPTION_SIZE, &f->memory,
           .fallback = "what the model's training took, or what the device has"),
      FLAG("batch", OPTION_INTEGER, &m->batch),
      FLAG("precision", OPTION_CHOICE, &f->precision),
      FLAG("quiet", OPTION_SWITCH, &f->quiet),
  };
  OPTIONS_ADD(o, run);
}

static int parse(saved_model *m, int argc, char **argv, void (*more)(saved_model *m, options *o)) {
  setup *s = &m->setup;
  if (!(s->model = calloc(1, s->kind->size))) return fail("out of memory");
  snprintf(s->command, sizeof s->command, "%s %s", m->command->name, s->kind->name);
  s->options = (options){.command = s->command, .summary = m->command->summary};
  s->flags.device = "auto";
  s->kind->defaults(s->model, &s->flags);
  s->kind->add_options(s->model, &s->options);
  more(m, &s->options);
  add_run_options(m, &s->options);
  const int status = options_parse(&s->options, argc, argv);
  return status == STATUS_CONTINUE ? flag_rules_check(&s->options) : status;
}

static int put_general_help(const saved_command *command, help_form form) {
  char more[96];
  help h =
      help_begin(form, command->name, "[MODEL] --model FILE --data PATH [flags]", command->general);
  help_commands(&h, "MODELS");
  for (int i = 0; model_kinds[i]; i++)
    if (model_kinds[i]->classes || !command->images_alone)
      help_put_command(&h, model_kinds[i]->name, model_kinds[i]->what);
  snprintf(more, sizeof more, "accrue %s MODEL --help lists a model's flags.", command->name);
  help_paragraph(&h, more);
  help_end(&h);
  return STATUS_DONE;
}

/* Without a file the help is that of the model in the first argument. STATUS_CONTINUE: no help is
 * asked for, or the file names the kind. */
static int give_help(saved_model *m, int argc, char **argv,
                     void (*more)(saved_model *m, options *o)) {
  help_form form = HELP_NONE;
  for (int i = 0; i < argc && !form; i++) form = help_asked(argv[i]);
  if (!form || find_model(argc, argv)) return STATUS_CONTINUE;
  m->setup.kind = kind_of(argv[0]);
  return m->setup.kind ? parse(m, argc - 1, argv + 1, more) : put_general_help(m->command, form);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* A folder has files to train and other files to validate; they are not one dataset. Documents that
 * a language model is given are all taken, unless the flags divide them. */
static int choose_part(saved_model *m) {
  const train_data *data = &m->setup.data;
  if (m->setup.kind->load_session && !data->validation) {
    m->dataset = data->train;
    return STATUS_CONTINUE;
  }
  m->dataset = m->split == 1 ? data->train : m->split == 2 ? data->whole : data->validation;
  if (m->dataset) return STATUS_CONTINUE;
  if (options_given(&m->setup.options, "split"))
    return fail_usage(
        "--split all is for one file of images; for a folder give validation or train");
  m->dataset = data->validation;
  return STATUS_CONTINUE;
}

/* A language model is a folder or a file of its own form, and its kind opens it. */
static int open_file(saved_model *m, const char *path, int argc, char **argv, ac_model_file **file,
                     int *words) {
  const bool named = argc > 0 && argv[0][0] != '-';
  *words = named;
  if (named ? !strcmp(argv[0], "llm") : language_model_is(path)) {
    snprintf(m->path, sizeof m->path, "%s", path);
    m->setup.kind = kind_of("llm");
    return STATUS_CONTINUE;
  }
  const int status = model_path("model", path, m->path);
  if (status != STATUS_CONTINUE) return status;
  if (ac_model_file_open(file, m->path) != AC_OK) return fail_library();
  return choose_kind(m, argc, argv, *file, words);
}

static int open_all(saved_model *m, int argc, char **argv,
                    void (*more)(saved_model *m, options *o)) {
  setup *s = &m->setup;
  int words;
  const char *model = find_model(argc, argv);
  if (!model)
    return fail_usage("--model is missing: a file or folder that accrue train has written");
  ac_model_file *file = NULL;
  int status = open_file(m, model, argc, argv, &file, &words);
  if (status == STATUS_CONTINUE) status = check_kind(m);
  if (status == STATUS_CONTINUE) status = parse(m, argc - words, argv + words, more);
  s->data.undivided = s->flags.fold != NULL;
  s->data.unlabelled = m->command->images_alone;
  const char *names = file ? ac_model_file_metadata(file, "accrue.class_names") : NULL;
  if (names) m->class_names = strdup(names);
  s->data.class_names = m->class_names;
  if (status == STATUS_CONTINUE)
    status = s->kind->prepare(s->model, &s->options, file, m->path, &s->data);
  ac_model_file_close(file);
  if (status == STATUS_CONTINUE && s->flags.fold) status = data_fold(&s->data, s->flags.fold);
  if (status != STATUS_CONTINUE) return status;
  status = choose_part(m);
  if (status != STATUS_CONTINUE) return status;
  const ac_device_desc device = {
      .name = device_choose(s->flags.device), .threads = (int)s->flags.threads, .log = waiting_log};
  const ac_status opened = ac_device_open(&s->device, &device);
  return opened == AC_OK ? STATUS_CONTINUE : fail_setup(opened);
}

int saved_model_open(saved_model *m, const saved_command *command, int argc, char **argv,
                     void (*more)(saved_model *m, options *o)) {
  m->command = command;
  int status = give_help(m, argc, argv, more);
  if (status == STATUS_CONTINUE) status = open_all(m, argc, argv, more);
  progress_begin(&m->progress, 0, "", 1, true);
  m->progress.quiet = m->setup.flags.quiet;
  return status;
}

void saved_model_close(saved_model *m) {
  free(m->class_names);
  setup_close(&m->setup);
}

bool saved_model_show(void *model) {
  saved_model *m = model;
  progress_evaluation(&m->progress, m->done, ac_dataset_count(m->dataset));
  m->done += m->step;
  return false;
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* The bytes of training's plan, from the record in the model's folder; 0: there is none. */
static uint64_t memory_of_training(const saved_model *m) {
  char path[MODEL_PATH_BYTES];
  const char *slash = strrchr(m->path, '/');
  const int length = m->setup.kind->load_session ? (int)strlen(m->path)
                     : slash                     ? (int)(slash - m->path + 1)
                                                 : 0;
  if (snprintf(path, sizeof path, "%.*s%srun.json", length, m->path,
               m->setup.kind->load_session ? "/" : "") >= (int)sizeof path)
    return 0;
  json_error_t error;
  json_t *record = json_file_load(path, 0, &error);
  const json_int_t bytes =
      json_integer_value(json_object_get(json_object_get(record, "plan"), "planned_bytes"));
  json_decref(record);
  return bytes > 0 ? (uint64_t)bytes : 0;
}

/* A sample of a language model is long, so a few of them fill a pass. */
enum { USUAL_LONG_BATCH = 8 };

static ac_status make_plan(const saved_model *m, ac_purpose purpose, uint64_t memory,
                           saved_pass *pass) {
  const bool few = m->setup.kind->load_session && !options_given(&m->setup.options, "batch");
  const int64_t samples = ac_dataset_count(m->dataset),
                count = few && samples > USUAL_LONG_BATCH ? USUAL_LONG_BATCH : samples;
  const ac_plan_desc desc = {.purpose = purpose,
                             .batch = m->batch < count ? m->batch : count,
                             .memory = memory,
                             .precision = (ac_precision)m->setup.flags.precision};
  return ac_plan_create(&pass->plan, pass->graph, m->setup.device, &desc);
}

static bool plan_has(const void *plan, const char *name) {
  ac_plan_parameter parameter;
  for (int i = 0; ac_plan_get_parameter(plan, i, &parameter) == AC_OK; i++)
    if (!strcmp(parameter.tensor.name, name)) return true;
  return false;
}

static ac_status load_weights(const saved_model *m, ac_session *session) {
  const model_kind *kind = m->setup.kind;
  const char *taken = kind->taken ? kind->taken(m->setup.model) : NULL;
  const model_made made = kind->made ? kind->made(m->setup.model) : (model_made){0};
  const ac_status status =
      taken ? ac_session_load_part(session, m->path, taken, kind->optional_prefix)
            : ac_session_load(session, m->path, kind->optional_prefix);
  if (status != AC_OK || !made.name) return status;
  return ac_session_set_parameter(session, made.name, 0, made.count, made.data);
}

int saved_pass_open(saved_model *m, ac_purpose purpose, saved_pass *pass) {
  const setup *s = &m->setup;
  const uint64_t given = s->flags.memory, trained = given ? 0 : memory_of_training(m);
  ac_status status = ac_graph_create(&pass->graph);
  if (status == AC_OK) {
    s->kind->build(s->model, pass->graph);
    status = make_plan(m, purpose, given ? given : trained, pass);
    if (status == AC_ERROR_BUDGET && trained) status = make_plan(m, purpose, 0, pass);
  }
  freed_memory_return();
  if (status == AC_OK && s->kind->check_file) {
    const int checked = s->kind->check_file(s->model, plan_has, pass->plan, m->path);
    if (checked != STATUS_CONTINUE) return checked;
  }
  if (status == AC_OK) status = ac_session_create(&pass->session, pass->plan, 0);
  if (status == AC_OK && !s->kind->load_session) status = load_weights(m, pass->session);
  if (status != AC_OK) return fail_library();
  const int loaded =
      s->kind->load_session ? s->kind->load_session(s->model, pass->session) : STATUS_CONTINUE;
  if (loaded != STATUS_CONTINUE) return loaded;
  const ac_plan_info *info = ac_plan_get_info(pass->plan);
  m->step = info->micro_batch;
  m->done = 0;
  if (info->bytes.total > m->bytes) m->bytes = info->bytes.total;
  return STATUS_CONTINUE;
}

void saved_pass_close(saved_pass *pass) {
  ac_session_free(pass->session);
  ac_plan_free(pass->plan);
  ac_graph_free(pass->graph);
}

/* ---- classifying ----------------------------------------------------------------------------- */

static ac_status predict(void *session, int64_t count, const ac_feed *images, int64_t elements,
                         float *logits) {
  const ac_status status = ac_session_run(session, count, images, 1);
  return status == AC_OK ? ac_session_output(session, "logits", 0, elements, logits) : status;
}

int saved_model_classify(saved_model *m, int64_t elements, classify_answer answer, void *user) {
  saved_pass pass = {0};
  int status = saved_pass_open(m, AC_PREDICT, &pass);
  if (status == STATUS_CONTINUE) {
    const classification c = {.dataset = m->dataset,
                              .batch = ac_plan_get_info(pass.plan)->micro_batch,
                              .elements = elements,
                              .predict = predict,
                              .model = pass.session,
                              .stop = saved_model_show,
                              .stop_user = m,
                              .answer = answer,
                              .user = user};
    status = classify(&c);
  }
  progress_clear(&m->progress);
  saved_pass_close(&pass);
  return status;
}
